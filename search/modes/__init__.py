"""Three ways of use: one shot by the model alone, measuring the best few, and tuning (Anderson, section 8)."""
