# mypy: ignore-errors
"""A Flask app of one file, as its own documentation has it."""

from flask import Flask

app = Flask(__name__)


@app.get("/")
def home() -> str:
    return "<h1>Hello from Flask</h1>"
