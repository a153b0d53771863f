"""Prints the table of kernel-metadata's measurements.

    steps_table.py STEPS TIMES

STEPS has lines `STEP server what count began_ms ended_ms`, TIMES is the output of cpu_times.py for anabranch
and samba.
"""

import bisect
import sys

SERVERS = ("anabranch", "samba")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        steps = [line.split()[1:] for line in file if line.startswith("STEP ")]
    with open(sys.argv[2], encoding="utf-8") as file:
        times = [[int(word) for word in line.split()] for line in file]
    when = [row[0] for row in times]

    def used_us(server, began, ended):
        column = 1 + SERVERS.index(server)
        before = times[max(bisect.bisect_right(when, began) - 1, 0)][column]
        after = times[min(bisect.bisect_left(when, ended), len(times) - 1)][column]
        return (after - before) * 1000

    rates, costs = {}, {}
    for server, what, count, began, ended in steps:
        count, began, ended = int(count), int(began), int(ended)
        rates.setdefault(what, {}).setdefault(server, []).append(count * 1000 / (ended - began))
        if server in SERVERS:
            costs.setdefault(what, {}).setdefault(server, []).append(
                used_us(server, began, ended) / count
            )
    print("| what | anabranch/s | samba/s | local/s | anabranch µs each | samba µs each | samba : anabranch |")
    print("|---|---|---|---|---|---|---|")
    for what, by_server in rates.items():
        best = {server: max(values) for server, values in by_server.items()}
        cost = {server: min(values) for server, values in costs[what].items()}
        ratio = cost["samba"] / cost["anabranch"] if cost["anabranch"] else float("inf")
        print(
            f"| {what} | {best['anabranch']:.0f} | {best['samba']:.0f} | {best['local']:.0f} "
            f"| {cost['anabranch']:.1f} | {cost['samba']:.1f} | {ratio:.1f} |"
        )


main()
