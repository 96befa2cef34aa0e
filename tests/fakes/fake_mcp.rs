//! A scripted MCP server with a fault menu (to come).

fn main() {}
