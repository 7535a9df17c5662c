"""Engines: they run a model's passes over rows. `Engine` in protocols.py is their interface.

Reading order: registry (engines by name), native (the CPU engine), replay (recorded texts in virtual time,
for the controller), machine (the facts, besides the model, on which measured times depend), control_groups
(the limits of containers).
"""
