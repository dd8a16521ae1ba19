"""The methods as LangGraph Studio and the Agent Server serve them (see `langgraph.json`)."""

from __future__ import annotations
