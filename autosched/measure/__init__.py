"""Measuring: benchmark workers that may crash, three kinds of devices behind one interface, the results database."""
