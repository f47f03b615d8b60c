# mypy: ignore-errors
"""A Starlette app with nothing at /, as APIs often have it."""

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def items(request):
    return JSONResponse({"items": []})


app = Starlette(routes=[Route("/api/items", items)])
