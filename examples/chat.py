#!/usr/bin/env python3
"""Asks a Janus endpoint with the official OpenAI client and prints the answer as it streams.

    examples/chat.py [--base-url URL] [--max-tokens N] PROMPT
"""

import argparse
import sys

import openai


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--max-tokens", type=int, default=80)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    client = openai.OpenAI(base_url=args.base_url, api_key="none")
    model = client.models.list().data[0].id
    print(f"\nuser: {args.prompt}\n{model}: ", end="", flush=True)
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": args.prompt}],
        max_tokens=args.max_tokens,
        seed=args.seed,
        stream=True,
    )
    tokens = 0
    for chunk in stream:
        text = chunk.choices[0].delta.content if chunk.choices else None
        if text:
            tokens += 1
            print(text, end="", flush=True)
    print()
    return 0 if tokens else 1


if __name__ == "__main__":
    sys.exit(main())
