"""Editors of other programs' configuration files. Each changes only its own lines and can take them out again.

One rule makes taking out exact without a record of what was there: text that is put **into** something that exists
begins with a line break; text that **we created** does not. So an object, an array or a file that holds nothing but
our entry is removed with it exactly when we made it.
"""
