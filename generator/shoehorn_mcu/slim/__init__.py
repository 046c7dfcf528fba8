"""`gen slim`: a trained float32 network rewritten with fewer, cheaper ops for a board, retrained and quantised.

DeepRebirth (Li, Wang, Kong, AAAI 2018, arXiv 1708.04728) merges layers without weights into the convolutions beside
them. Here the planner's prices decide which merges are worth a retraining. No module of this room imports torch.
"""
