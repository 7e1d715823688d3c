"""Two replicas on one database: the contract of shared stores."""

from tests.stores.shared_contract import *  # noqa: F403 - these are the tests
