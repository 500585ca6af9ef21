"""Pictures and pages of the documentation, and output of the demo."""
