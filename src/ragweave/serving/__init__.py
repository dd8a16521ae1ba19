"""Methods behind OpenAI's protocol, the Model Context Protocol, LangGraph Studio and the Agent Server."""
