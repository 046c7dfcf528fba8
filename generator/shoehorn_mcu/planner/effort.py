"""The effort of every search: how many, how long, how far. Equal effort gives equal plans on any machine.

A search is bounded by counted work, not by the clock; where a time is named, it is what the work takes on one core of 2
to 3 GHz. Shares are of what the line names.
"""

# Whole tensors: the order of buffers
WHOLE_WORK = 4_000_000  # pairs of buffers that the search over orders compares at most; about two seconds
WHOLE_TRIES = 200

# Partitions: groups of ops
GROUP_LONGEST = 48  # ops of a group at most; longer groups were never better on the models tried
GROUP_FEW = 3000  # choices of composites in a group up to which all of them are tried

# Partitions: the exact search
EXACT_RUNS = 150_000  # peaks of a group computed in one A* search
EXACT_ALL_RUNS = 1_500_000  # the same for all searches of all questions

# Partitions: the lowest peak within an allowance of work
PARTITION_TRIES = 16
PARTITION_TRY = 0.01  # of the peak
PARTITION_STEP = 0.001  # of the peak: resolution of the search for the lowest peak within an allowance of work
PARTITION_SPARE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the capacity: left free for packing losses, tried in turn
PARTITION_FEW_OPS = 40  # of a model whose plans with blocks in bands are searched with rows that overlap, too
PARTITION_CHAIN_RUNS = 100_000  # the effort of exact searches with chains, of which there are many

# Blocks in bands
BLOCK_BANDS = (1, 2, 3, 4, 6, 8)  # rows of a block's output; a band of all rows is tried too

# Chains of ops in bands
CHAIN_LONGEST = 8  # ops of a chain
CHAIN_MOST = 24  # chains: an exact search for many that overlap does not end

# Candidates: what is worth another search
CANDIDATE_LONG = 4  # ops between a tensor's writer and its last reader; a residual block has fewer
CANDIDATE_LOSS = 0.015  # of the peak: what a placed order may lose before more is tried,
# another order where there are few; where there are not many, of twice the loss
CANDIDATE_FEW_ROWS, CANDIDATE_MANY_ROWS = 1000, 3000
CANDIDATE_ROOM = 0.02  # of the peak: bytes above it that are accepted when a plan is placed quickly
# of the peak by groups: what another order must save where each op reads the output of the one before
CANDIDATE_GAIN = 0.01
CANDIDATE_LEAST_GAIN = 0.002  # of an arena: what a peak must save for a long search
# of a problem in which every kind of plan is searched within a byte less than the smallest arena
CANDIDATE_QUICK_ROWS = 48
CANDIDATE_PACKED = 8  # row orders placed in the search for the smallest arena
# smaller arenas with blocks that recompute too much until rows are kept; of few rows
CANDIDATE_SPARED, CANDIDATE_SPARED_ROWS = 3, 300

# Orders of single rows
ORDER_FORCED_SHARE = 0.75  # of the effort for one order: where each op reads the output of the one before

# Shorter live ranges in an order
SHORTEN_PASSES = 2
SHORTEN_FARTHEST = 2000  # places that a computation moves at one time

# Recomputing rows: budgets
BUDGET_LEAST_SECONDS, BUDGET_MOST_SECONDS, BUDGET_ROWS_PER_SECOND = 1.2, 20.0, 120  # effort for one order of rows
BUDGET_PATIENCE = 20  # wall-clock limit as a multiple of the effort: so the effort decides on any machine
BUDGET_SPARE = (0.0, 0.03, 0.06, 0.1, 0.15)  # of the capacity: left free for packing losses, tried in turn
BUDGET_FINER, BUDGET_FINER_SHARE = 2, 0.6  # budgets tried after the first order that packs, and the effort for each
BUDGET_DESCENTS = 8  # budgets tried for the smallest arena
BUDGET_DESCENT_SHARE, BUDGET_FEW_SHARE = 0.6, 0.4  # the effort for each; for few rows less, because CP-SAT adds to it
# consecutive failed budgets that end the search: for a capacity, for the smallest arena
BUDGET_FAILURES, BUDGET_MISSES = 3, 5
# first reduction as part of the peak, and its growth until a budget is too low
BUDGET_FIRST_CUT, BUDGET_GROWTH = 0.1, 1.5

# Recomputing rows: the search within a budget
RECOMPUTE_TRIES_PER_SECOND = 60  # sequences with retraces evaluated before the search, per second of effort
RECOMPUTE_SEARCH_SHARE = 0.6  # of the seconds: for the local search
RECOMPUTE_CLONED_ROWS_PER_SECOND = 8000  # rows of problems with clones, for each of the seed budgets
RECOMPUTE_BANDED_ROWS_PER_SECOND = 200_000  # rows replayed in the search for halos to recompute
RECOMPUTE_BANDED_SHARE = 4  # of the effort: for the search from there, which is short
RECOMPUTE_SEED_BUDGETS = (1.0, 0.9, 0.8)  # where rows are few
RECOMPUTE_RETAIN_SHARE = 0.5  # of the seconds: for CP-SAT, in its deterministic time
RECOMPUTE_WINDOW_SHARE = 0.15  # of the seconds: for CP-SAT in windows, if there are too many rows for one model
RECOMPUTE_LITTLE = 0.01  # extra work, as a share
# of the bytes above a given peak, and of the effort for one order
RECOMPUTE_KEPT, RECOMPUTE_KEPT_SHARE = (0.0, 0.25, 0.5, 1.0), 2.0
RECOMPUTE_TRIED = (1.0, 0.85, 0.7)  # of the budget: the limits that are searched
RECOMPUTE_RUNG = 0.05  # of the peak: how far each intermediate limit lowers it, from a peak far above the budget
RECOMPUTE_RUNGS = 8  # intermediate limits at most
RECOMPUTE_ROUNDS = 10  # budgets tried for the lowest peak
RECOMPUTE_FIRST_CUT = 0.08  # first reduction as part of the peak; halved after each failure
RECOMPUTE_LAST_CUT = 0.004
RECOMPUTE_REACHED = 0.4  # of a reduction: what a search that misses it must reach for the next one to be as large
RECOMPUTE_NODES = (800, 2500)  # approximate number of bands of rows, coarse and fine

# Recomputing rows: clones
CLONE_MOST = 8  # retraces in one problem
CLONE_MOST_EXTRA_WORK = 0.5  # of all clones together, relative to the work of the first order

# Recomputing rows: halos of groups
HALO_LONGEST = 20  # ops of a group with halos
HALO_NEAR = 0.1  # of the budget: how far above it an order may be, as a start for the search
HALO_HIGHEST = 2.0  # of the budget: the highest peak of a group whose halos are tried

# Recomputing rows: retraces
RETRACE_DEEPEST = 10  # ops from the tensor's writer back to the start of a cone
RETRACE_MOST = 24  # retraces in one sequence

# Addresses: the choice of rows in place
LAYOUT_WORTH = 0.002  # of an arena: what is searched for where rows drift
# of the best arena: where first fit ends above it, another choice of in-place rows is left out
LAYOUT_HOPELESS = 1.05
LAYOUT_ARENAS = 2  # that are tried between the load and the best arena, where rows drift

# Addresses: first fit, sweeps and the exact search
PLACE_FIT_PAIRS = 500_000_000  # pairs of pieces, some 1/32 of which first fit compares; about a second
PLACE_FIT_ROUNDS = 30  # for each first order
PLACE_FIRST_WORK = 60_000_000  # of the sweep at the height wanted, before the exact search; about half a second
PLACE_WORK = 800_000_000  # of the sweep at the height wanted, before and after it; about 6 s
# where there are few: of the first for each piece, of all for each pair of them
PLACE_PIECE_WORK, PLACE_PAIR_WORK = 75_000, 75
PLACE_FAR = 1.08  # of the height wanted: where the best placement is above it, few pieces have all of the first, too
PLACE_SOME_WORK = PLACE_WORK // 6  # of the sweep at the height wanted after it, where many orders are to be placed
PLACE_RUNS = 400  # of the sweep at the height wanted, at most
PLACE_PINNED_RUNS = 16  # of the sweep for each place of an input that is tried
PLACE_LOWERING_WORK = 100_000_000  # of the sweep above it
PLACE_PIECE_LOWERING_WORK = 200_000  # the same for each piece, where there are few
PLACE_LESS_PIECE_WORK = 20_000  # of the first for each piece where there are many, with less effort
PLACE_LEAST_PART = 8  # of these and of the pairs, with the least effort
PLACE_QUICK_PART = 4  # the same for Effort.QUICK
PLACE_LOWERING_TRIES = 28  # runs at each height above it
PLACE_SEARCH = 3.0  # effort of allocate's search, about seconds
PLACE_MOST_BOXES = 200  # that it gets; of more, on no model here did it find what the sweeps had not
PLACE_NARROW, PLACE_WIDE = (32, 128), (512, 1024, 2048, 128)
PLACE_POWERS = (0, 1, 3, 8)  # from an end
PLACE_STEEP = (8, 20, 60, 200)  # from the peak
PLACE_NOISES = (0.05, 0.1, 0.3)

# Addresses: a sweep
SWEEP_MOST_STEPS = 8_000_000  # bundles times placements side by side; 8 bytes each
# of a run, of first fit: a quarter of a second at most, no thread
SWEEP_BRIEF_WORK, SWEEP_BRIEF_PIECES = 30_000_000, 10_000

# Addresses: the search of `gen pack`
ALLOCATE_WORK_PER_SECOND = 400_000_000  # of C's `work`, on one core of 2 to 3 GHz
ALLOCATE_MOST_SEARCHED = 3000  # buffers; the search takes memory by their square, so more are placed greedily
ALLOCATE_BOUND_SHARE = 0.3  # of the effort, spent at the load bound first
ALLOCATE_STEP_SHARE = 0.125  # of the effort, spent at each height that is tried afterwards
ALLOCATE_PLACED = 40_000_000  # pairs of buffers compared by greedy orders; about 0.1 s
ALLOCATE_FEWEST_NODES = 500
ALLOCATE_SHORT = 2  # nodes of a short search, per buffer
ALLOCATE_LONG = 8  # nodes of the first long search, per buffer; each next one has twice as many
ALLOCATE_LONG_SHARE = 4  # one in this many nodes goes to long searches
ALLOCATE_NOISES = (0.02, 0.1, 0.3)  # how far a buffer's rank moves at random, as a share of all ranks
ALLOCATE_SEARCHED = 3  # orders that searches take; greedy placement takes all

# Several memories
ASSIGN_EFFORT = 4.0  # of CP-SAT for one assignment, in its own count of time
ASSIGN_LIMIT_SECONDS = 60.0  # the last stop of one
ASSIGN_PARTS = 100  # of a cycle, in which CP-SAT counts
ASSIGN_COMPARED = 600  # moments up to which those are left out at which nothing is alive that is not at another one
SPREAD_MOST_PARTS = 16  # of a tensor
SPREAD_ROUNDS = 8  # assignments that are tried to be packed
SPREAD_PARTS = 16  # of the smallest memory: as large are the parts of a tensor that may be in several, or larger

# Rematerialisation of graphs (`gen remat`)
REMAT_WORK_PER_SECOND = 200_000_000
REMAT_COPIES = 8  # of one node at most
REMAT_WALKERS = 2
REMAT_CHUNKS = 40  # parts of a phase; the search may stop between two
REMAT_SEARCH_SHARE = 0.5  # of the seconds: for the local search, as work
REMAT_BOUND_SHARE = 0.05  # of the seconds: for CP-SAT at each bound, as deterministic time
REMAT_FIXED_SHARE = 0.6  # of the seconds: for CP-SAT in a fixed order, as deterministic time
REMAT_FIRST_PATIENCE = 1  # consecutive milestones that may fail to raise the bound before any sequence is known
REMAT_PATIENCE = 4  # the same, before the anneals
REMAT_MOST_NODES = 1000  # of a graph that is given to CP-SAT in one model
REMAT_SMALL = 24  # nodes up to which CP-SAT finally solves the full model

# Rematerialisation: the staged model of CP-SAT
STAGED_SHARE = 1 / 60  # of the limit: for one model, except the last
STAGED_BUILDING = 1 / 4000  # deterministic time per event to build a model, besides CP-SAT's own
STAGED_MOST_EVENTS = 6000  # of a model with all of them: the order of a hundred nodes has 5050
STAGED_WIDTH = 300  # events of the first windows

# Rematerialisation: the neighbourhood of a sequence
NEAR_OFFERS = ((8, 1), (30, 1))  # slots since an input was last used before it may be recomputed, and how often
NEAR_SHARE = 0.4  # of the remaining limit: for one model
NEAR_WINDOW = 400  # steps that one model may change
NEAR_WINDOW_SHARE = 0.1  # of the whole limit: for one window

# Rematerialisation: all states of a small graph
STATES_MOST_NODES = 9  # each has not run, is held, or is not: at most 3^9 = 19,683 states
