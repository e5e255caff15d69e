#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Answers each message of its peers until as many as asked for have gone."""
import asyncio
import contextlib
import sys

import unetmm.aio


async def echo(ep):
    while True:
        message = await ep.receive()
        with contextlib.suppress(unetmm.Error):
            # A peer that has gone does not end the others.
            await ep.send(message.channel, message.data)
        if message.buffer is not None:
            ep.post_recv(message.buffer)


async def main(peers):
    with unetmm.Context() as card:
        async with unetmm.aio.Endpoint(card) as ep, asyncio.TaskGroup() as tasks:
            for _ in range(16):
                ep.post_recv(bytearray(16384))
            ep.listen(100)
            task = tasks.create_task(echo(ep))
            channels = [await ep.accept() for _ in range(peers)]
            await asyncio.gather(*map(ep.closed, channels))
            task.cancel()

asyncio.run(main(int(sys.argv[1])))
