"""Messages that kafka-python lacks, or has in older versions only, from Kafka's own definitions.

The definitions are the .json files of release 4.4 beside this module. kafka-python's codecs read them, and names and
fields are those of the files.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from kafka.protocol import metadata
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_message import ApiMessage

_HERE: Final[dict[str, Any]] = {"load_json": __name__}
"""Where kafka-python finds a definition: beside this module, under the name of the class."""


class ApiVersionsRequest(ApiMessage, **_HERE):
    """API 18 up to version 5 (KIP-1242)."""


class ApiVersionsResponse(ApiMessage, **_HERE):
    """API 18 up to version 5 (KIP-1242)."""


# Keep kafka-python's class registered for its own clients: ours reads another header (KIP-511).
ResponseClassRegistry.register_response_class(weakref.proxy(metadata.ApiVersionsResponse))


class ConsumerGroupHeartbeatRequest(ApiMessage, **_HERE):
    """API 68 (KIP-848)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, **_HERE):
    """API 68 (KIP-848)."""


class ConsumerGroupDescribeRequest(ApiMessage, **_HERE):
    """API 69 (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, **_HERE):
    """API 69 (KIP-848)."""


class ShareGroupDescribeRequest(ApiMessage, **_HERE):
    """API 77 (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, **_HERE):
    """API 77 (KIP-932)."""


class StreamsGroupDescribeRequest(ApiMessage, **_HERE):
    """API 89 (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, **_HERE):
    """API 89 (KIP-1071)."""
