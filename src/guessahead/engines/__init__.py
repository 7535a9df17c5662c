"""Passes over rows: what can run a model. `Engine` in protocols.py is what each of them promises.

registry (engines by name), native (the CPU engine), replay (recorded texts in virtual time, for the
controller), machine (what measured times depend on beside the model).
"""
