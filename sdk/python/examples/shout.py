"""Two handlers, and a job that uses them.

    pawl dev &
    python3 examples/shout.py worker &
    python3 examples/shout.py submit hello world
"""

import sys
from dataclasses import dataclass
from typing import List

import pawl

WORKFLOW = """
name: shouting
inputs: {words: {type: array, required: true}}
steps:
  - {id: shout, foreach: "${{ inputs.words }}", handler: shout, with: {text: "${{ item }}", times: 2}}
  - {id: join, needs: [shout], handler: join, with: "${{ steps.shout.output }}"}
output: ${{ steps.join.output }}
"""


@dataclass
class Shout:
    text: str
    times: int = 1


def shout(given: Shout, step: pawl.Step) -> str:
    if not given.text:
        raise pawl.Permanent("there is nothing to shout", cls="empty")
    for _ in range(given.times):
        step.log("shouting " + given.text)
        step.sleep(0.1)  # ends at once when the job is canceled
    return given.text.upper() + "!" * given.times


async def join(words: List[str]) -> str:
    return " ".join(words)


def main() -> None:
    if sys.argv[1:] == ["worker"]:
        worker = pawl.Worker(capacity=4, drain_timeout=30)
        worker.handle("shout", shout)
        worker.handle("join", join)
        worker.run()
    elif sys.argv[1:2] == ["submit"]:
        client = pawl.Client()
        job = client.wait(client.submit(source=WORKFLOW, inputs={"words": sys.argv[2:]}))
        print(job.output if job.status == "COMPLETED" else job.error)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
