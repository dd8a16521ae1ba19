"""Evaluation: data sets, metrics, durable runs, reports."""
