"""The memories that Funcs are kept in."""

GLOBAL, SHARED, REGISTER = range(3)
