"""The learned cost model: network, data sets, training, evaluation, weights."""
