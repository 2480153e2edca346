"""The doors, by what is behind them. Each file has `routes(hub)`, which the application is built from."""
