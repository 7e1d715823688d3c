"""Every feature of the protocol in one plugin: first the tools that the conformance suite requires, then a demo.

The module is the plugin: mcptrio registers its decorated functions in the order of these imports.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

# This tool must be first, because the conformance suite calls the first listed tool without arguments.
from mcptrio_everything.tools_content import test_simple_text

# isort: split
# The other functions that the suite requires.
from mcptrio_everything.prompts import (
    args_prompt,
    completable_prompt,
    complete_arg1,
    complete_department,
    complete_name,
    resource_prompt,
    test_input_required_result_prompt,
    test_prompt_with_arguments,
    test_prompt_with_embedded_resource,
    test_prompt_with_image,
    test_simple_prompt,
)
from mcptrio_everything.resources import (
    complete_blob_id,
    complete_text_id,
    dynamic_blob,
    dynamic_text,
    features_document,
    static_binary,
    static_text,
    template_data,
    watched_resource,
)
from mcptrio_everything.tools_client_requests import (
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_missing_capability,
    test_sampling,
    test_streaming_elicitation,
)
from mcptrio_everything.tools_content import (
    test_audio_content,
    test_embedded_resource,
    test_error_handling,
    test_image_content,
    test_multiple_content_types,
)
from mcptrio_everything.tools_input_required import (
    test_input_required_result_capabilities,
    test_input_required_result_elicitation,
    test_input_required_result_list_roots,
    test_input_required_result_multi_round,
    test_input_required_result_multiple_inputs,
    test_input_required_result_request_state,
    test_input_required_result_sampling,
    test_input_required_result_tampered_state,
)
from mcptrio_everything.tools_list_changes import (
    test_trigger_prompt_change,
    test_trigger_tool_change,
)
from mcptrio_everything.tools_notifications import (
    test_logging_tool,
    test_reconnection,
    test_tool_with_logging,
    test_tool_with_progress,
)
from mcptrio_everything.tools_schemas import (
    json_schema_2020_12_tool,
    test_x_mcp_header,
)
from mcptrio_everything.tools_tasks import (
    confirm_delete,
    failing_job,
    greet,
    multi_input,
    protocol_error_job,
    slow_compute,
    test_tool_with_task,
)

# isort: split
# The demo.
from mcptrio_everything.demo_client_requests import (
    get_roots_list,
    trigger_elicitation_request,
    trigger_sampling_request,
    trigger_url_elicitation,
)
from mcptrio_everything.demo_content import (
    echo,
    get_annotated_message,
    get_resource_links,
    get_resource_reference,
    get_structured_content,
    get_sum,
    get_tiny_image,
    gzip_file_as_resource,
)
from mcptrio_everything.demo_long_running import (
    simulate_logging,
    simulate_research_query,
    trigger_long_running_operation,
    trigger_resource_updates,
)

__all__ = [
    "args_prompt",
    "completable_prompt",
    "complete_arg1",
    "complete_blob_id",
    "complete_department",
    "complete_name",
    "complete_text_id",
    "confirm_delete",
    "dynamic_blob",
    "dynamic_text",
    "echo",
    "failing_job",
    "features_document",
    "get_annotated_message",
    "get_resource_links",
    "get_resource_reference",
    "get_roots_list",
    "get_structured_content",
    "get_sum",
    "get_tiny_image",
    "greet",
    "gzip_file_as_resource",
    "json_schema_2020_12_tool",
    "multi_input",
    "protocol_error_job",
    "resource_prompt",
    "setup",
    "simulate_logging",
    "simulate_research_query",
    "slow_compute",
    "static_binary",
    "static_text",
    "template_data",
    "test_audio_content",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_embedded_resource",
    "test_error_handling",
    "test_image_content",
    "test_input_required_result_capabilities",
    "test_input_required_result_elicitation",
    "test_input_required_result_list_roots",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_prompt",
    "test_input_required_result_request_state",
    "test_input_required_result_sampling",
    "test_input_required_result_tampered_state",
    "test_logging_tool",
    "test_missing_capability",
    "test_multiple_content_types",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
    "test_reconnection",
    "test_sampling",
    "test_simple_prompt",
    "test_simple_text",
    "test_streaming_elicitation",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_tool_with_task",
    "test_trigger_prompt_change",
    "test_trigger_tool_change",
    "test_x_mcp_header",
    "trigger_elicitation_request",
    "trigger_long_running_operation",
    "trigger_resource_updates",
    "trigger_sampling_request",
    "trigger_url_elicitation",
    "watched_resource",
]


@hookimpl
def setup(server: PluginSetup) -> None:
    """Disable the prefix of tool names, because the suite requires exact names."""
    server.set_tool_prefix("")
