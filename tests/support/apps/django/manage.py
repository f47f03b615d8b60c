# mypy: ignore-errors
"""A Django project in one file."""

import os
import sys

SECRET_KEY = "only for tests"
DEBUG = True
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = []

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "manage")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
