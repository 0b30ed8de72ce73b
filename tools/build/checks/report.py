"""How every checker ends."""
import pathlib
import sys


def report(errors, fine, figure=None):
    """Says what is wrong; or the figure, when one was asked for; or what is fine. The exit code."""
    name = pathlib.Path(sys.argv[0]).stem
    for error in errors:
        print(f'{name}: {error}', file=sys.stderr)
    if not errors:
        print(f'figure {figure}' if figure else f'{name}: {fine}')
    return 1 if errors else 0
