"""Long checks that no test run affords."""
