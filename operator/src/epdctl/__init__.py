"""The command line of epd-operator: ``epdctl``, or ``kubectl epd``."""
