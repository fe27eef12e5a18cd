"""Pods: what runs in them (process), how it is launched (launcher), and the pod template around it (template)."""
