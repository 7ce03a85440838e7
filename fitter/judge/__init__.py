"""The judge: its prompt, its verdict contract, and the runner that makes passes."""
