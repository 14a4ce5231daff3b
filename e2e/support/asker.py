"""Asks an endpoint without a pause, with the official client: asker.py URL ASKERS MAX_TOKENS PROMPT...

Each asker takes the prompts in turn, greedily, with a new connection for every request, until standard input ends. A line
on standard input is answered with the number of answers so far. The last line has the number of answers, the failures,
every text among the answers to each prompt, and the longest wait for a first or a next token. A failure has the second
of the run at which its request began and ended, and the causes that the client wraps.
"""

import collections
import json
import sys
import threading
import time

import openai


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.answers = 0
        self.failures = []
        self.texts = collections.defaultdict(set)
        self.longest = 0.0
        self.began = time.monotonic()

    def answered(self, prompt, text, longest):
        with self.lock:
            self.answers += 1
            self.texts[prompt].add(text)
            self.longest = max(self.longest, longest)

    def failed(self, error, began):
        causes, cause = [], error
        while cause is not None:
            causes.append(f"{type(cause).__name__}: {cause}")
            cause = cause.__cause__ or cause.__context__
        with self.lock:
            self.failures.append(f"{' from '.join(causes)} (from {began - self.began:.1f} to "
                                 f"{time.monotonic() - self.began:.1f} s)")

    def all(self):
        with self.lock:
            return {"answers": self.answers, "failures": self.failures, "longest_wait": round(self.longest, 3),
                    "texts": {prompt: sorted(texts) for prompt, texts in self.texts.items()}}


def answer(url, prompt, max_tokens):
    """(the text, the longest wait for a token)."""
    parts, longest, last = [], 0.0, time.monotonic()
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        stream = client.completions.create(model="demo", prompt=prompt, max_tokens=max_tokens, temperature=0,
                                           stream=True)
        for chunk in stream:
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            parts += [choice.text for choice in chunk.choices]
    return "".join(parts), longest


def main():
    url, askers, max_tokens, prompts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    over, tally = threading.Event(), Tally()

    def ask(which):
        while not over.is_set():
            prompt = prompts[which % len(prompts)]
            which += 1
            began = time.monotonic()
            try:
                tally.answered(prompt, *answer(url, prompt, max_tokens))
            except Exception as error:  # as a client sees it  # pylint: disable=broad-except
                tally.failed(error, began)

    threads = [threading.Thread(target=ask, args=(which,)) for which in range(askers)]
    for thread in threads:
        thread.start()
    for _ in sys.stdin:
        print(tally.answers, flush=True)
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(tally.all()))


if __name__ == "__main__":
    main()
