"""Prompts and completion by the names of the suite, with content that none of ours has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance.content import PICTURE, embedded
from tests.conformance.rounds import ask, filled, form

if TYPE_CHECKING:
    from tests.conformance.protocol import Context

PROMPTS = {
    "test_simple_prompt": ("A prompt without arguments", ()),
    "test_prompt_with_arguments": ("A prompt with two arguments", ("arg1", "arg2")),
    "test_prompt_with_embedded_resource": ("A prompt with a resource in it", ("resourceUri",)),
    "test_prompt_with_image": ("A prompt with a picture in it", ()),
    "test_input_required_result_prompt": ("A prompt that asks the user first", ()),
}


async def list_prompts(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=description,
                arguments=[types.PromptArgument(name=word, required=True) for word in arguments],
            )
            for name, (description, arguments) in PROMPTS.items()
        ]
    )


def _messages(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=content) for content in contents]
    )


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _messages(types.TextContent(text="This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return _messages(types.TextContent(text=said))
        case "test_prompt_with_embedded_resource":
            return _messages(
                embedded(
                    given["resourceUri"], "text/plain", "Embedded resource content for testing."
                ),
                types.TextContent(text="Please process the embedded resource above."),
            )
        case "test_prompt_with_image":
            return _messages(PICTURE, types.TextContent(text="Please analyze the image above."))
        case "test_input_required_result_prompt":
            context = filled(params, "user_context", "context")
            if context is None:
                return ask(user_context=form("What context should the prompt use?", "context"))
            return _messages(types.TextContent(text=f"Use this context: {context}"))
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:200]!r}")


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(
        completion=types.Completion(values=words, total=len(words), has_more=False)
    )
