import trio


async def test_c(serve):
    peer = await serve()
    t = trio.lowlevel.current_clock()
    print(type(t))
    assert (type(t).__name__ == "MockClock") == (serve.transport == "memory")
