"""Array types of frameworks for type checkers: `Any` where a framework is not installed.

There is a module for each framework, because their names collide. Each imports everything from its
framework: a checker that does not find the framework has no such name then, and takes that of
`absent`. If it imported only the one name, pyright's strict mode would report callers' code that
never mentions the framework. At run time nothing is imported.
"""
