"""Messages that kafka-python does not have, from Kafka's own definitions (the .json files of release 4.4 beside this).

Its codecs read the definitions; the names and fields are those of the files.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """API 69 (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """API 69 (KIP-848)."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """API 77 (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """API 77 (KIP-932)."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """API 89 (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """API 89 (KIP-1071)."""
