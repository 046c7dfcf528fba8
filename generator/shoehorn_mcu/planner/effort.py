"""The effort of every search: how many, how long, how far. Equal effort gives equal plans on any machine.

A search is bounded by counted work, not by the clock; where a time is named, it is what the work takes on one core of 2
to 3 GHz. Shares are of what the line names.
"""


class WHOLE:
    """Whole tensors: the order of buffers."""

    WORK = 4_000_000  # pairs of buffers that the search over orders compares at most; about two seconds
    TRIES = 200


class GROUP:
    """Partitions: groups of ops."""

    LONGEST = 48  # ops of a group at most; longer groups were never better on the models tried
    FEW = 3000  # choices of composites in a group up to which all of them are tried


class EXACT:
    """Partitions: the exact search."""

    RUNS = 150_000  # peaks of a group computed in one A* search
    ALL_RUNS = 1_500_000  # the same for all searches of all questions


class PARTITION:
    """Partitions: the lowest peak within an allowance of work."""

    TRIES = 16
    TRY = 0.01  # of the peak
    STEP = 0.001  # of the peak: resolution of the search for the lowest peak within an allowance of work
    SPARE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the capacity: left free for packing losses, tried in turn
    FEW_OPS = 40  # of a model whose plans with blocks in bands are searched with rows that overlap, too
    CHAIN_RUNS = 100_000  # the effort of exact searches with chains, of which there are many


class BLOCK:
    """Blocks in bands."""

    BANDS = (1, 2, 3, 4, 6, 8)  # rows of a block's output; a band of all rows is tried too


class CHAIN:
    """Chains of ops in bands."""

    LONGEST = 8  # ops of a chain
    MOST = 24  # chains: an exact search for many that overlap does not end


class CANDIDATE:
    """Candidates: what is worth another search."""

    LONG = 4  # ops between a tensor's writer and its last reader; a residual block has fewer
    LOSS = 0.015  # of the peak: what a placed order may lose before more is tried,
    # another order where there are few; where there are not many, of twice the loss
    FEW_ROWS, MANY_ROWS = 1000, 3000
    ROOM = 0.02  # of the peak: bytes above it that are accepted when a plan is placed quickly
    # of the peak by groups: what another order must save where each op reads the output of the one before
    GAIN = 0.01
    LEAST_GAIN = 0.002  # of an arena: what a peak must save for a long search
    # of a problem in which every kind of plan is searched within a byte less than the smallest arena
    QUICK_ROWS = 48
    PACKED = 8  # row orders placed in the search for the smallest arena
    # smaller arenas with blocks that recompute too much until rows are kept; of few rows
    SPARED, SPARED_ROWS = 3, 300


class ORDER:
    """Orders of single rows."""

    FORCED_SHARE = 0.75  # of the effort for one order: where each op reads the output of the one before


class DESCENT:
    """Orders of single rows: beam searches and lower bounds."""

    WORK_PER_SECOND = 400_000_000  # arcs that flows look at, and reads that beams do
    # of the bound by cuts before a beam, and after it; known orders spare most of them
    FIRST_CUT_SECONDS, CUT_SECONDS = 0.1, 1.5
    WIDTHS, NARROW = (1, 4, 16, 64, 256, 1024), 64  # orders that are followed at one time
    GUIDED_WIDTHS = (64, 1024)  # the same along what was deduced
    STEP = 0.004  # of the peak: how far limits of beams are apart
    FEW = 700  # rows up to which all pairs are tested at once
    ROWS = (4, 12)  # of a tensor that are compared where there are more
    FIRST_SHARE = 0.7  # of the work that is left, for one test with the most bytes
    GUIDED_BEAMS = 3  # for each number of bytes and width, about
    GUIDED_SECONDS = 0.8, 0.2  # at most, where there are few rows, and many
    # for the bound of a form of the graph of which no plan is made, where there are few rows, and many
    OTHER_FORM_SECONDS = 4.0, 0.3
    # of the effort for one order: beams; pairs before the local search, where there are few rows, and many
    BEAM_SHARE, FIRST_PROOF_SHARES = 0.1, (0.2, 0.03)
    # pairs after it, and where it is left out
    PROOF_SHARES, ALONE_PROOF_SHARES = (1.0, 0.06), (0.5, 0.03)


class SHORTEN:
    """Shorter live ranges in an order."""

    PASSES = 2
    FARTHEST = 2000  # places that a computation moves at one time


class BUDGET:
    """Recomputing rows: budgets."""

    LEAST_SECONDS, MOST_SECONDS, ROWS_PER_SECOND = 1.2, 20.0, 120  # effort for one order of rows
    PATIENCE = 20  # wall-clock limit as a multiple of the effort: so the effort decides on any machine
    SPARE = (0.0, 0.03, 0.06, 0.1, 0.15)  # of the capacity: left free for packing losses, tried in turn
    FINER, FINER_SHARE = 2, 0.6  # budgets tried after the first order that packs, and the effort for each
    DESCENTS = 8  # budgets tried for the smallest arena
    DESCENT_SHARE, FEW_SHARE = 0.6, 0.4  # the effort for each; for few rows less, because CP-SAT adds to it
    # consecutive failed budgets that end the search: for a capacity, for the smallest arena
    FAILURES, MISSES = 3, 5
    # first reduction as part of the peak, and its growth until a budget is too low
    FIRST_CUT, GROWTH = 0.1, 1.5


class RECOMPUTE:
    """Recomputing rows: the search within a budget."""

    TRIES_PER_SECOND = 60  # sequences with retraces evaluated before the search, per second of effort
    SEARCH_SHARE = 0.6  # of the seconds: for the local search
    BOUND_SHARE = 0.25  # of the effort for one order: for the lower bound of those that compute as much again
    CLONED_ROWS_PER_SECOND = 8000  # rows of problems with clones, for each of the seed budgets
    BANDED_ROWS_PER_SECOND = 200_000  # rows replayed in the search for halos to recompute
    BANDED_SHARE = 4  # of the effort: for the search from there, which is short
    SEED_BUDGETS = (1.0, 0.9, 0.8)  # where rows are few
    RETAIN_SHARE = 0.5  # of the seconds: for CP-SAT, in its deterministic time
    WINDOW_SHARE = 0.15  # of the seconds: for CP-SAT in windows, if there are too many rows for one model
    LITTLE = 0.01  # extra work, as a share
    # of the bytes above a given peak, and of the effort for one order
    KEPT, KEPT_SHARE = (0.0, 0.25, 0.5, 1.0), 2.0
    TRIED = (1.0, 0.85, 0.7)  # of the budget: the limits that are searched
    RUNG = 0.05  # of the peak: how far each intermediate limit lowers it, from a peak far above the budget
    RUNGS = 8  # intermediate limits at most
    ROUNDS = 10  # budgets tried for the lowest peak
    FIRST_CUT = 0.08  # first reduction as part of the peak; halved after each failure
    LAST_CUT = 0.004
    REACHED = 0.4  # of a reduction: what a search that misses it must reach for the next one to be as large
    NODES = (800, 2500)  # approximate number of bands of rows, coarse and fine


class CLONE:
    """Recomputing rows: clones."""

    MOST = 8  # retraces in one problem
    MOST_EXTRA_WORK = 0.5  # of all clones together, relative to the work of the first order


class HALO:
    """Recomputing rows: halos of groups."""

    LONGEST = 20  # ops of a group with halos
    NEAR = 0.1  # of the budget: how far above it an order may be, as a start for the search
    HIGHEST = 2.0  # of the budget: the highest peak of a group whose halos are tried


class RETRACE:
    """Recomputing rows: retraces."""

    DEEPEST = 10  # ops from the tensor's writer back to the start of a cone
    MOST = 24  # retraces in one sequence


class LAYOUT:
    """Addresses: the choice of rows in place."""

    WORTH = 0.002  # of an arena: what is searched for where rows drift
    # of the best arena: where first fit ends above it, another choice of in-place rows is left out
    HOPELESS = 1.05
    ARENAS = 2  # that are tried between the load and the best arena, where rows drift


class PLACE:
    """Addresses: first fit, sweeps and the exact search."""

    FIT_PAIRS = 500_000_000  # pairs of pieces, some 1/32 of which first fit compares; about a second
    FIT_ROUNDS = 30  # for each first order
    FIRST_WORK = 60_000_000  # of the sweep at the height wanted, before the exact search; about half a second
    WORK = 800_000_000  # of the sweep at the height wanted, before and after it; about 6 s
    # where there are few: of the first for each piece, of all for each pair of them
    PIECE_WORK, PAIR_WORK = 75_000, 75
    FAR = 1.08  # of the height wanted: where the best placement is above it, few pieces have all of the first, too
    SOME_WORK = WORK // 6  # of the sweep at the height wanted after it, where many orders are to be placed
    RUNS = 400  # of the sweep at the height wanted, at most
    PINNED_RUNS = 16  # of the sweep for each place of an input that is tried
    LOWERING_WORK = 100_000_000  # of the sweep above it
    PIECE_LOWERING_WORK = 200_000  # the same for each piece, where there are few
    LESS_PIECE_WORK = 20_000  # of the first for each piece where there are many, with less effort
    LEAST_PART = 8  # of these and of the pairs, with the least effort
    QUICK_PART = 4  # the same for Effort.QUICK
    LOWERING_TRIES = 28  # runs at each height above it
    SEARCH = 3.0  # effort of allocate's search, about seconds
    MOST_BOXES = 200  # that it gets; of more, on no model here did it find what the sweeps had not
    NARROW, WIDE = (32, 128), (512, 1024, 2048, 128)
    POWERS = (0, 1, 3, 8)  # from an end
    STEEP = (8, 20, 60, 200)  # from the peak
    NOISES = (0.05, 0.1, 0.3)


class SWEEP:
    """Addresses: a sweep."""

    MOST_STEPS = 8_000_000  # bundles times placements side by side; 8 bytes each
    # of a run, of first fit: a quarter of a second at most, no thread
    BRIEF_WORK, BRIEF_PIECES = 30_000_000, 10_000


class ALLOCATE:
    """Addresses: the search of `gen pack`."""

    WORK_PER_SECOND = 400_000_000  # of C's `work`, on one core of 2 to 3 GHz
    MOST_SEARCHED = 3000  # buffers; the search takes memory by their square, so more are placed greedily
    BOUND_SHARE = 0.3  # of the effort, spent at the load bound first
    STEP_SHARE = 0.125  # of the effort, spent at each height that is tried afterwards
    PLACED = 40_000_000  # pairs of buffers compared by greedy orders; about 0.1 s
    FEWEST_NODES = 500
    SHORT = 2  # nodes of a short search, per buffer
    LONG = 8  # nodes of the first long search, per buffer; each next one has twice as many
    LONG_SHARE = 4  # one in this many nodes goes to long searches
    NOISES = (0.02, 0.1, 0.3)  # how far a buffer's rank moves at random, as a share of all ranks
    SEARCHED = 3  # orders that searches take; greedy placement takes all


class ASSIGN:
    """Several memories."""

    EFFORT = 4.0  # of CP-SAT for one assignment, in its own count of time
    LIMIT_SECONDS = 60.0  # the last stop of one
    PARTS = 100  # of a cycle, in which CP-SAT counts
    COMPARED = 600  # moments up to which those are left out at which nothing is alive that is not at another one


class SPREAD:
    """Several memories."""

    MOST_PARTS = 16  # of a tensor
    ROUNDS = 8  # assignments that are tried to be packed
    PARTS = 16  # of the smallest memory: as large are the parts of a tensor that may be in several, or larger


class REMAT:
    """Rematerialisation of graphs (`gen remat`)."""

    # array elements that a walker touches on the slowest machine that should give the same answers
    WORK_PER_SECOND = 200_000_000
    MANY_NODES = 2000  # from which on the search keeps memory in blocks, which touch fewer elements
    BLOCKS_WORK_PER_SECOND = 1_000_000_000
    LIKE_NODES = 1000  # of a graph for which temperatures are given; of more nodes, they are lower
    COPIES = 8  # of one node at most
    WALKERS = 2
    CHUNKS = 40  # parts of a phase; the search may stop between two
    BRIEF_WORK = 8_000_000  # the most work of a phase that takes no threads: each part takes a millisecond at most
    SEARCH_SHARE = 0.5  # of the seconds: for the local search, as work
    BOUND_SHARE = 0.05  # of the seconds: for CP-SAT at each bound, as deterministic time
    FIXED_SHARE = 0.6  # of the seconds: for CP-SAT in a fixed order, as deterministic time
    FIRST_PATIENCE = 1  # consecutive milestones that may fail to raise the bound before any sequence is known
    PATIENCE = 4  # the same, before the anneals
    MOST_NODES = 1000  # of a graph that is given to CP-SAT in one model
    SMALL = 24  # nodes up to which CP-SAT finally solves the full model


class STAGED:
    """Rematerialisation: the staged model of CP-SAT."""

    SHARE = 1 / 60  # of the limit: for one model, except the last
    BUILDING = 1 / 4000  # deterministic time per event to build a model, besides CP-SAT's own
    MOST_EVENTS = 6000  # of a model with all of them: the order of a hundred nodes has 5050
    WIDTH = 300  # events of the first windows


class NEAR:
    """Rematerialisation: the neighbourhood of a sequence."""

    OFFERS = ((8, 1), (30, 1))  # slots since an input was last used before it may be recomputed, and how often
    SHARE = 0.4  # of the remaining limit: for one model
    WINDOW = 400  # steps that one model may change
    WINDOW_SHARE = 0.1  # of the whole limit: for one window


class LASTING:
    """Rematerialisation: outputs that are kept over long gaps."""

    PARTS = 60  # of an order, each with a step at which the budget is a constraint
    # steps after which an output may be run again: so many, in small graphs a part of all
    FAR, FAR_PART = 100, 50
    RATIOS = (4.0, 4.0)  # by depth, a slot's most duration per byte, as a multiple of the whole graph's
    MOST = 12000  # slots offered besides the order
    BETTER = 0.7  # of these ratios, for each edge, where more are offered
    GAP = 0.03  # of the recomputed duration: an answer so near to the bound is taken
    SHARES = (0.08, 0.08)  # of the seconds: for CP-SAT before each anneal, as deterministic time


class STATES:
    """Rematerialisation: all states of a small graph."""

    MOST_NODES = 9  # each has not run, is held, or is not: at most 3^9 = 19,683 states
