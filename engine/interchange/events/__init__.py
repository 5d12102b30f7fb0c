"""Floor 7: subscriptions, webhooks, alerts, messages."""
