"""A stand-in for Datadog LLM Observability, written from the contract's §11 checklist."""

from tests.servers.datadog.server import StandIn
from tests.servers.datadog.switches import Switches
from tests.servers.datadog.world import World

__all__ = ["StandIn", "Switches", "World"]
