"""Measurement: crash-safe benchmark workers, three kinds of devices behind one interface, the results database."""
