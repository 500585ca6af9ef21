"""Pictures and pages of the documentation, and the demo's output."""
