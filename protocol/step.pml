/*
 * The protocol of one supervised step, for Spin. Rows are those of the table in docs/explanation/protocol.md.
 *
 *   L   launcher; after its restart the adopter: launches, asks a host to take over, applies the end, acknowledges, removes
 *   H   host: forks S, is a subreaper and the witness of what it forked; concludes for steps whose host is gone; forks successors.
 *       A restarted one is a new one
 *   S   supervisor of the launch: holder of the step's lock
 *   S2  successor: a supervisor that a host forks once the end is recorded: opens the lock anew, rows 9 to 11
 *   T   trampoline; after its exec the leader
 *   World   the adversary (kills at any point, a power cut, hangs, an upgrade; "crashes stop"), and pid 1, which reaps what is left to it
 *
 * Without flags the model is the protocol as implemented, and clean. -DBUG_<NAME> puts one sentence back that is wrong, or leaves
 * one out; catalogue.toml says which property it breaks. Budgets: KL KH KS KT (kills of L, H, supervisors, T), KA (of all of them), KP (power cuts),
 * KU (SIGSTOPs of a supervisor), KV (SIGSTOPs of a host). Options:
 *   NOSTORE  client mode: L keeps nothing across a crash, and launches once      PIDFD    a held pidfd tells the exit (Linux 6.15)
 *   READER   a process R that holds the lock for a moment, to look               ADOPTER  a process A that also asks and waits
 *   UPGRADE  at any time a new host takes the place of the living one            PROLOG   a hook before the leader beside the epilog
 *
 * Modelled: flock on copies of an open file description (in L, a message, H, S, T before its exec) and on later ones; messages that die
 * with their receiver; SIGCHLD to the subreaper; fsync, and what a power cut takes without it; WNOWAIT; EOF on gate and channel.
 * Not modelled: several steps (host.pml), a full disk, contents of cgroups (a tree is its leader), requests that signal, leaderless
 * steps, loss of the state folder. Nothing is decided by the records `terminating`, so they are left out.
 */
#ifndef KL
#define KL 1
#endif
#ifndef KH
#define KH 1
#endif
#ifndef KS
#define KS 1
#endif
#ifndef KT
#define KT 1
#endif
#ifndef KP
#define KP 0
#endif
#ifndef KU
#define KU 0
#endif
#ifndef KV
#define KV 0
#endif
#ifdef UPGRADE
#define UPGRADES 1
#else
#define UPGRADES 0
#endif
#define HOSTS (1 + KH + KP + KV + UPGRADES)     /* hosts have the numbers 1 to HOSTS */

#ifndef KA
#define KA (KL + KH + KS + KT)
#endif

/* kinds of ends; NOT_STARTED_KILLED is a ghost: killed from outside before the exec, so that NOT_STARTED and SIGNALED are both true */
#define NONE               0
#define NOT_STARTED        1
#define EXITED             2
#define SIGNALED           3
#define UNKNOWN            4
#define NOT_STARTED_KILLED 5
/* descriptor.json */
#define NO_DESCRIPTOR 0
#define NO_LEADER     1         /* supervisor, host, cgroup, joined: false */
#define WITH_LEADER   2         /* and leader, joined: true */
/* a record of the journal */
#define ABSENT   0
#define APPENDED 1
#define DURABLE  2
/* where the supervisor that serves the step stands; OFFLINE: nobody answers on the control socket */
#define OFFLINE   0
#define READY     1
#define PROLOG_   2
#define STARTING  3
#define OPENING   4
#define RUNNING   5
#define EMPTYING  6
#define EPILOG_   7
#define COMPLETED 8
#define LEAVING   9
/* processes */
#define UNBORN 0
#define UP     1
#define DEAD   2
#define T_CLONED 1              /* between clone and exec of the trampoline: has copies of S's descriptors */
#define T_GATE   2
#define T_GO     3              /* read the byte at the gate */
#define T_RUNS   4              /* exec'd: the leader */
#define T_ZOMBIE 5
#define T_REAPED 6
#define OF_S    0
#define OF_H    1
#define OF_INIT 2
/* who holds the lock by an open file description of its own */
#define NOBODY   0
#define BY_L     1
#define BY_S     2
#define BY_R     3
#define BY_H(g)  (10 + g)
#define BY_S2(g) (20 + g)
/* hooks */
#define EPILOG 0
#define PROLOG_HOOK 1
#ifdef PROLOG
#define HOOKS 2
#else
#define HOOKS 1
#endif
#define PASSED 1
#define FAILED 2

/* ---------------------------------------------------------------- disk */
bool new_folder;                            /* .new-<id>-<random> */
bool published, published_durable;          /* the step folder under its name; the rename fsynced */
bool old_folder;                            /* .old-<id>-<random> */
byte launch_boot;                           /* launch.json: the boot */
byte descriptor, descriptor_host, descriptor_supervisor;
byte gate_opening, launched, emptied, acknowledged;     /* journal.jsonl */
byte exit_observed; bool exit_durable;
byte hook_begun[HOOKS], hook_completed[HOOKS];
byte prolog_result;
bool dispatched; byte result;               /* L's own store: one transaction each */

/* ---------------------------------------------------------------- kernel */
byte boot;
bool L_up, A_cut;
bool H_up[HOSTS + 1]; byte H_last;          /* H_last: the host that listens */
byte S_st, S_host; bool S_child;            /* S_child: S_host lives and has not reaped S */
byte S2_st[HOSTS + 1];                      /* one successor at a time of each host */
byte T_st, T_parent, T_raw; bool T_cut;     /* T_raw: EXITED (its own 127 at the worst) or SIGNALED */
bool lock_L, lock_message, lock_S, lock_T; byte lock_H;    /* copies of the open file description of row 1 that hold the lock */
byte owner;                                 /* who opened `lock` anew, and has it */
bool gate_held, gate_byte;                  /* S's end of the gate; the byte */
bool channel_open, about_to_exec, start_failed;     /* the failure channel: T's end; what was said on it */
byte launch_to;                             /* `launch` in the socket of this host, with the copies of folder and lock */
bool hand_over;                             /* S's message in the socket of its host: the leader's pidfd and the channel */
bool has_leader;                            /* S_host has read it */
bool in_hand[HOSTS + 1];                    /* the host was told of the step: by `launch` or by `take_over` */
#ifdef BUG_ASK_ONCE
bool asked;
#endif
bool has_pidfd[HOSTS + 1];                  /* the host opened the leader's pidfd from the descriptor */
byte state; bool start_sent, acknowledge_sent;
#if KU > 0
bool S_hung, S2_hung[HOSTS + 1];
#endif
#if KV > 0
bool H_hung[HOSTS + 1];
#endif
#ifdef UPGRADE
bool retired[HOSTS + 1];
#endif

/* ---------------------------------------------------------------- ghosts */
byte kl = KL, kh = KH, ks = KS, kt = KT, kills = KA, kp = KP, ku = KU, kv = KV, kc = KU, adopter_kills = 1, upgrades = UPGRADES;
bool L_writes;                              /* L takes itself for the writer by the copy of row 1 */
bool S_crashed, H_crashed[HOSTS + 1], power_cut, withdrawn, concluded_not_started, done;
byte execs, truth, applied;
byte runs[HOOKS]; bool hook_runs[HOOKS];

#define complete      (exit_observed != NONE && emptied != ABSENT && hook_completed[EPILOG] != ABSENT)
#ifdef PROLOG
#define no_hook_begun (hook_begun[EPILOG] == ABSENT && hook_begun[PROLOG_HOOK] == ABSENT)
#else
#define no_hook_begun (hook_begun[EPILOG] == ABSENT)
#endif
#define T_alive       (T_st >= T_CLONED && T_st <= T_RUNS)
#define T_gone        (T_st == UNBORN || T_st >= T_ZOMBIE)
#define copies_hold   (lock_L || lock_message || lock_H || lock_S || lock_T)
#define lock_free     (!copies_hold && owner == NOBODY)
#ifdef PROLOG
#define no_hook_runs  (!hook_runs[EPILOG] && !hook_runs[PROLOG_HOOK])
#define prolog_passed (hook_completed[PROLOG_HOOK] == DURABLE && prolog_result == PASSED)
#else
#define no_hook_runs  (!hook_runs[EPILOG])
#define prolog_passed true
#endif

/* the witness: the host that the descriptor names lives */
#if defined(BUG_HOST_ANY)
#define witness_alive (H_up[H_last])
#elif defined(BUG_HOST_NEWEST)
#define witness_alive (descriptor_host == H_last && H_up[descriptor_host])
#elif defined(BUG_HUNG_HOST_IS_DEAD)
#define witness_alive (H_up[descriptor_host] && !H_hung[descriptor_host])
#else
#define witness_alive (H_up[descriptor_host])
#endif
#ifdef BUG_NO_WITNESS
#define without_witness true
#else
#define without_witness (!witness_alive)
#endif
/* what can be decided under the lock, in the order of "Taking over" */
#define decidable (exit_observed != NONE || boot != launch_boot || descriptor != WITH_LEADER || (without_witness && T_gone))

/* ---------------------------------------------------------------- properties */
/* one writer, and it holds the lock */
inline writes(me) {
    assert(published && !(L_writes && owner != NOBODY));
    assert(owner == (me))
}
/* what may be recorded as the end */
inline check_end(value) {
    assert(value != NOT_STARTED || execs == 0);
    assert(value != EXITED || truth == EXITED);
    assert(value != SIGNALED || truth == SIGNALED || truth == NOT_STARTED_KILLED);
    assert(value != UNKNOWN || boot != launch_boot ||
           (S_crashed && H_crashed[S_host] && descriptor == WITH_LEADER && gate_opening != ABSENT))
}

/* ---------------------------------------------------------------- writing */
inline sync_record(record) {
    if :: record == APPENDED -> record = DURABLE :: else fi
}
inline fdatasync_journal() {
    d_step {
        sync_record(gate_opening); sync_record(launched); sync_record(emptied); sync_record(acknowledged);
        sync_record(hook_begun[EPILOG]); sync_record(hook_completed[EPILOG]);
#ifdef PROLOG
        sync_record(hook_begun[PROLOG_HOOK]); sync_record(hook_completed[PROLOG_HOOK]);
#endif
        if :: exit_observed != NONE -> exit_durable = true :: else fi
    }
}
inline observe_exit(me, value) {
    d_step { writes(me); check_end(value); assert(exit_observed == NONE); exit_observed = value; exit_durable = false }
}
inline reap() {         /* by whoever is the parent: the record is durable by now */
    d_step { assert(exit_durable || power_cut || !published || descriptor != WITH_LEADER); T_st = T_REAPED;
             gate_byte = false; about_to_exec = false; start_failed = false }
}
inline lose_unsynced(record) {
    if :: record == APPENDED -> record = ABSENT :: else fi
}

/* ---------------------------------------------------------------- the kernel's part of a death */
inline kill_T() {
    T_st = T_ZOMBIE; T_raw = SIGNALED; T_cut = true; lock_T = false; channel_open = false;
    if :: execs == 0 -> truth = NOT_STARTED_KILLED :: else -> truth = SIGNALED fi
}
inline offline() {
    state = OFFLINE; start_sent = false; acknowledge_sent = false
}
inline die_S() {
    lock_S = false; gate_held = false;
#if KU > 0
    S_hung = false;
#endif
    if :: owner == BY_S -> owner = NOBODY; offline() :: else fi;
    if :: T_parent == OF_S && S_child -> T_parent = OF_H :: T_parent == OF_S && !S_child -> T_parent = OF_INIT :: else fi;
    S_st = DEAD
}
inline die_S2(g, now) {
#if KU > 0
    S2_hung[g] = false;
#endif
    if :: owner == BY_S2(g) -> owner = NOBODY; offline() :: else fi;
    S2_st[g] = now
}
inline die_H(g) {
    H_up[g] = false; in_hand[g] = false; has_pidfd[g] = false;
    if :: lock_H == g -> lock_H = 0 :: else fi;
    if :: owner == BY_H(g) -> owner = NOBODY :: else fi;
    if :: launch_to == g -> launch_to = 0; lock_message = false :: else fi;
    if :: S_host == g -> S_child = false; hand_over = false; has_leader = false;
                         if :: T_parent == OF_H -> T_parent = OF_INIT :: else fi
       :: else fi
}
inline die_L() {
    L_up = false; lock_L = false; L_writes = false;
#ifdef NOSTORE
    result = NONE;
#endif
    if :: owner == BY_L -> owner = NOBODY :: else fi
}
inline start_host() {
    H_last++; H_up[H_last] = true; run H(H_last)
}

/* ---------------------------------------------------------------- rows 9 and 10, for the holder of the lock */
inline empty_tree(me) {
#ifndef BUG_NO_KILL
    if :: T_alive -> d_step { kill_T() } :: else fi;
#endif
    if :: emptied == ABSENT -> d_step { writes(me); emptied = APPENDED } :: else fi
}
inline run_hook(me, hook) {
    d_step { writes(me); hook_begun[hook] = APPENDED };
    fdatasync_journal();
    d_step { runs[hook]++; assert(runs[hook] <= 1 && hook_begun[hook] == DURABLE && no_hook_runs && T_gone && !withdrawn); hook_runs[hook] = true };
#ifdef PROLOG
    if :: hook == PROLOG_HOOK -> prolog_result = FAILED :: hook == PROLOG_HOOK -> prolog_result = PASSED :: hook == EPILOG -> skip fi;
#endif
    hook_runs[hook] = false;
    d_step { writes(me); hook_completed[hook] = APPENDED };
    fdatasync_journal()
}
inline give_up_hook(me, hook) {     /* begun by a dead owner: its cgroup is emptied, and it is not run again */
#ifndef BUG_HOOK_RUNS_ON
    hook_runs[hook] = false;
#endif
    d_step { writes(me); if :: hook == PROLOG_HOOK -> prolog_result = UNKNOWN :: else fi; hook_completed[hook] = APPENDED };
    fdatasync_journal()
}
inline run_epilog(me) {
    if
#ifdef BUG_HOOK_UNNAMED
    :: hook_completed[PROLOG_HOOK] != ABSENT && hook_completed[EPILOG] == ABSENT -> skip
#endif
    :: hook_completed[EPILOG] != ABSENT -> skip
    :: hook_completed[EPILOG] == ABSENT && hook_begun[EPILOG] != ABSENT -> give_up_hook(me, EPILOG)
    :: hook_completed[EPILOG] == ABSENT && hook_begun[EPILOG] == ABSENT -> run_hook(me, EPILOG)
    fi
}
inline complete_step(me) {          /* rows 11 and 12 */
    d_step { state = COMPLETED; assert(complete) };
    if
    :: acknowledge_sent -> d_step { writes(me); acknowledged = APPENDED }; fdatasync_journal()
    :: skip                                                 /* the linger is over */
    fi;
    state = LEAVING
}

/* ================================================================ T */
proctype T() {
    {
        atomic { T_st = T_GATE; lock_T = false };           /* exec of the trampoline: close-on-exec */
        if
        :: gate_byte -> T_st = T_GO
        :: !gate_byte && !gate_held -> start_failed = true; goto failed     /* EOF: do not exec */
        fi;
        about_to_exec = true;
        if
        :: d_step { execs++; assert(execs <= 1); assert(exit_observed == NONE && !concluded_not_started && !withdrawn); assert(prolog_passed);
                    T_st = T_RUNS; channel_open = false }
        :: start_failed = true; goto failed                 /* execve(2) failed */
        fi;
        d_step { T_st = T_ZOMBIE; T_raw = EXITED; truth = EXITED };         /* the leader ends with a code of its own */
        goto over;
failed: atomic { T_st = T_ZOMBIE; T_raw = EXITED; truth = NOT_STARTED; channel_open = false };     /* the same raw status */
over:   skip
    } unless { T_cut }
}

/* ================================================================ S */
#if KU > 0
#define UNLESS_HUNG provided (!S_hung)
#else
#define UNLESS_HUNG
#endif
proctype S() UNLESS_HUNG {
    byte value; bool executed;
    {
        /* row 3: S lets go of every copy, and takes the lock anew by a description of its own. Who comes between is waited for, a while */
        d_step { lock_L = false; lock_message = false; lock_H = 0; lock_S = false };
        if
        :: atomic { lock_free -> owner = BY_S }
        :: !lock_free ->
           if
           :: atomic { lock_free -> owner = BY_S }
           :: goto leave
           fi
        fi;
        if :: !published -> goto leave :: else fi;
#ifndef BUG_MOVE_BLIND
        if :: exit_observed != NONE -> goto leave :: else fi;
#endif
        /* row 4 */
        d_step { writes(BY_S); descriptor = NO_LEADER; descriptor_host = S_host; descriptor_supervisor = BY_S };
        state = READY;
        /* row 5 */
        if
        :: atomic { start_sent -> start_sent = false; state = STARTING }
        :: atomic { state = EMPTYING; start_sent = false; goto not_started }    /* nobody sent `start` in time */
        fi;
#ifdef PROLOG
        state = PROLOG_;
        run_hook(BY_S, PROLOG_HOOK);
#ifndef BUG_PROLOG_IGNORED
        if :: prolog_result != PASSED -> goto not_started :: else fi;
#endif
#endif
        /* row 6 */
        atomic { state = STARTING; gate_held = true; channel_open = true; T_st = T_CLONED; T_parent = OF_S; lock_T = lock_S; run T() };
#ifdef BUG_DESCRIPTOR_FIRST
        d_step { writes(BY_S); descriptor = WITH_LEADER };
#endif
#ifndef BUG_HAND_OVER_LATE
        if
        :: S_child -> hand_over = true
        :: S_child -> goto abandon                           /* it is there, and the hand-over fails */
        :: !S_child -> skip                                  /* no host left: without a witness */
        fi;
#endif
#ifndef BUG_DESCRIPTOR_FIRST
        d_step { writes(BY_S); descriptor = WITH_LEADER };
#endif
        /* row 7 */
#ifndef BUG_GATE_OPENING_LATE
        d_step { writes(BY_S); gate_opening = APPENDED };
#endif
        atomic { gate_byte = true; gate_held = false; state = OPENING };
#ifdef BUG_GATE_OPENING_LATE
        d_step { writes(BY_S); gate_opening = APPENDED };
#endif
#ifdef BUG_HAND_OVER_LATE
        if :: S_child -> hand_over = true :: !S_child -> skip fi;
#endif
        atomic {
            if
            :: start_failed -> executed = false
#ifndef BUG_FAST
            :: !channel_open && !start_failed -> executed = about_to_exec   /* EOF: by what was said before it */
#else
            :: !channel_open && !start_failed -> executed = (about_to_exec && T_alive)
#endif
            fi;
#ifdef BUG_CONSUME
            start_failed = false; about_to_exec = false;
#endif
        };
        if
        :: executed -> d_step { writes(BY_S); launched = APPENDED }; fdatasync_journal(); state = RUNNING
        :: !executed
        fi;
        /* row 8 */
        T_st == T_ZOMBIE;                                    /* waitid(WNOWAIT) */
        if :: executed -> value = T_raw :: !executed -> value = NOT_STARTED fi;
        observe_exit(BY_S, value);
        fdatasync_journal();
        reap();
        goto emptying;
abandon:
        atomic { gate_held = false; if :: T_alive -> d_step { kill_T() } :: else fi };
not_started:
#ifndef BUG_GIVE_UP_UNSYNCED
        published_durable = true;                            /* nobody may have sent `start`, and an epilog is run */
#endif
        observe_exit(BY_S, NOT_STARTED);
        fdatasync_journal();
        if :: T_st == T_ZOMBIE -> reap() :: else fi;
emptying: state = EMPTYING;
        empty_tree(BY_S);
        state = EPILOG_;
        run_epilog(BY_S);
        complete_step(BY_S);
leave:  atomic { die_S() }
    } unless { S_st == DEAD }
}

/* ================================================================ S2 */
#if KU > 0
#define UNLESS_S2_HUNG provided (!S2_hung[g])
#else
#define UNLESS_S2_HUNG
#endif
proctype S2(byte g) UNLESS_S2_HUNG {
    {
#ifndef BUG_HUNG_STEAL
        atomic { lock_free -> owner = BY_S2(g) };            /* waits: a prober may hold it */
#else
        atomic { lock_free || S_hung -> owner = BY_S2(g) };
#endif
        if :: !published || complete -> goto leave :: else fi;
        assert(exit_observed != NONE);                       /* a successor never decides */
#ifndef BUG_NO_SYNC
        fdatasync_journal();
#endif
        state = EMPTYING;                                    /* the socket is bound: row 4 */
#ifndef BUG_SUCCESSOR_UNNAMED
        d_step { writes(BY_S2(g)); if :: descriptor != NO_DESCRIPTOR -> descriptor_host = g; descriptor_supervisor = BY_S2(g) :: else fi };
#endif
#ifdef PROLOG
        if :: hook_begun[PROLOG_HOOK] != ABSENT && hook_completed[PROLOG_HOOK] == ABSENT -> give_up_hook(BY_S2(g), PROLOG_HOOK) :: else fi;
#endif
        empty_tree(BY_S2(g));
        state = EPILOG_;
        run_epilog(BY_S2(g));
        complete_step(BY_S2(g));
leave:  atomic { die_S2(g, UNBORN) }
    } unless { atomic { S2_st[g] == DEAD -> S2_st[g] = UNBORN } }
}

/* ================================================================ H */
#if KV > 0
#define UNLESS_H_HUNG provided (!H_hung[g])
#else
#define UNLESS_H_HUNG
#endif
/* the step is this host's to see to: nobody else of the living forked its supervisor */
#ifdef BUG_WAIT_LOCKED
#define falls_to(g) true
#else
#define falls_to(g) (descriptor == NO_DESCRIPTOR || descriptor_host == g || without_witness)
#endif
#define unsupervised(g) (in_hand[g] && !(S_child && S_host == g) && S2_st[g] == UNBORN && published && falls_to(g))
#ifdef BUG_HUNG_STEAL
#define may_conclude (decidable && (lock_free || S_hung))
#else
#define may_conclude (decidable && lock_free)
#endif
proctype H(byte g) UNLESS_H_HUNG {
    byte value;
    {
end_h:  do
        :: atomic { launch_to == g -> launch_to = 0; lock_message = false; lock_H = g };            /* row 3 */
#ifdef UPGRADE
           if :: retired[g] -> lock_H = 0; goto end_h :: true fi;                                   /* refused, or still taken */
#endif
           atomic { assert(S_st == UNBORN);                  /* never two supervisors of one launch */
                    lock_S = true; S_st = UP; S_host = g; S_child = true; in_hand[g] = true; run S() };
           d_step { if :: lock_H == g -> lock_H = 0 :: else fi }
        :: atomic { hand_over && S_host == g -> hand_over = false; has_leader = true }              /* row 6 */
        :: atomic {                                          /* an orphan that is nobody's leader */
#ifdef BUG_REAP_FIRST
             T_st == T_ZOMBIE && T_parent == OF_H && S_host == g && !has_leader
#else
             T_st == T_ZOMBIE && T_parent == OF_H && S_host == g && !has_leader && !hand_over && !S_child
#endif
             -> T_st = T_REAPED }
#ifdef BUG_TRY_LOCK_ONCE
        :: atomic { S_child && S_host == g && S_st == DEAD && !hand_over && (!has_leader || T_st == T_ZOMBIE) && !lock_free
                    -> S_child = false; has_leader = false }
#endif
#ifdef BUG_DESCRIPTOR_FIRST
        :: atomic { S_child && S_host == g && S_st == DEAD && !hand_over && !has_leader -> S_child = false }
        :: atomic { S_child && S_host == g && S_st == DEAD && !hand_over && has_leader && T_st >= T_ZOMBIE && lock_free
                    -> owner = BY_H(g) };
#else
        /* row 8: S is dead, its channel was read to the end, the leader has ended, nobody holds the lock: the witness */
        :: atomic { S_child && S_host == g && S_st == DEAD && !hand_over && (!has_leader || T_st >= T_ZOMBIE) && lock_free
                    -> owner = BY_H(g) };
#endif
           if
           :: !published -> skip
           :: published && exit_observed != NONE ->
#ifndef BUG_NO_SYNC
              fdatasync_journal()
#else
              skip
#endif
           :: published && exit_observed == NONE ->
              if
              :: boot != launch_boot -> value = UNKNOWN
              :: boot == launch_boot && !has_leader -> value = NOT_STARTED                          /* the gate was never opened */
              :: boot == launch_boot && has_leader && T_st == T_REAPED -> value = UNKNOWN           /* its status is gone */
              :: boot == launch_boot && has_leader && T_st != T_REAPED && launched == ABSENT && (start_failed || !about_to_exec) -> value = NOT_STARTED
              :: boot == launch_boot && has_leader && T_st != T_REAPED && (launched != ABSENT || (!start_failed && about_to_exec)) -> value = T_raw
              fi;
              observe_exit(BY_H(g), value);
              fdatasync_journal()
           fi;
           if :: has_leader && T_st == T_ZOMBIE -> reap() :: else fi;
#ifdef BUG_H_KEEPS_LOCK
           !published;
#endif
           d_step { owner = NOBODY; S_child = false; has_leader = false; value = NONE }                           /* S is reaped */
        /* Taking over: for a step whose supervisor and host are gone */
#ifdef BUG_WAIT_LOCKED
        :: atomic { unsupervised(g) && exit_observed == NONE && lock_free -> owner = BY_H(g) };
           decidable;
#else
        :: atomic { unsupervised(g) && exit_observed == NONE && may_conclude -> owner = BY_H(g) };
#endif
#ifndef BUG_NO_FSYNC
           published_durable = true;                         /* fsync of the folder above: a dead L may not have come to it */
#endif
           if
#ifndef BUG_BOOT
           :: boot != launch_boot -> value = UNKNOWN
           :: boot == launch_boot && descriptor != WITH_LEADER -> value = NOT_STARTED
#else
           :: boot != launch_boot && descriptor == WITH_LEADER -> value = UNKNOWN
           :: descriptor != WITH_LEADER -> value = NOT_STARTED
#endif
           :: boot == launch_boot && descriptor == WITH_LEADER && gate_opening == ABSENT -> value = NOT_STARTED
           :: boot == launch_boot && descriptor == WITH_LEADER && gate_opening != ABSENT ->
              value = UNKNOWN;
#ifdef BUG_NOT_LAUNCHED
              if :: launched == ABSENT -> value = NOT_STARTED :: else fi;
#endif
#ifdef PIDFD
#ifdef BUG_PIDFD
              if :: has_pidfd[g] -> value = T_raw :: else fi
#else
              if :: has_pidfd[g] && launched != ABSENT -> value = T_raw :: else fi
#endif
#endif
           fi;
           observe_exit(BY_H(g), value);
           fdatasync_journal();
           d_step { owner = NOBODY; value = NONE }
        /* its end is recorded, and something is owed: a successor. What a dead owner had appended is synced before */
        :: atomic { unsupervised(g) && exit_observed != NONE && !complete && lock_free -> S2_st[g] = UP; run S2(g) }
        :: atomic { in_hand[g] && !(S_child && S_host == g) && S2_st[g] != UP && (!published || complete)
                    -> in_hand[g] = false; has_pidfd[g] = false }
#ifdef PIDFD
        :: atomic { in_hand[g] && S_host != g && descriptor == WITH_LEADER && T_alive && !has_pidfd[g] && lock_free
                    -> has_pidfd[g] = true }
#endif
#ifdef UPGRADE
#ifdef BUG_RETIRE_EARLY
        :: atomic { retired[g] && S2_st[g] != UP && launch_to != g -> die_H(g); goto gone }
#else
        :: atomic { retired[g] && !in_hand[g] && S2_st[g] != UP && launch_to != g && !(S_child && S_host == g)
                    -> die_H(g); goto gone }
#endif
#endif
        od;
gone:   skip
    } unless { !H_up[g] }
}

/* ================================================================ L */
#ifdef BUG_WITHDRAW_HOOK
#define may_withdraw true
#else
#define may_withdraw no_hook_begun
#endif
#ifdef NOSTORE
#define may_launch (!dispatched && !withdrawn)                             /* a client that died does not come again; only adopters do */
#else
#define may_launch (!withdrawn)                              /* a launch after one that was withdrawn is another one */
#endif
#ifdef BUG_HUNG_HOST_IS_DEAD
#define no_host (!H_up[H_last] || H_hung[H_last])
#else
#define no_host (!H_up[H_last])
#endif
/* asks the listening host to take over, and starts one if there is none: again when the one that was asked has died */
inline wait_for_end() {
    do
    :: complete || !published -> break
    :: state == READY && !start_sent ->                      /* an adopter may, once the intent is durable */
#ifndef BUG_START_UNSYNCED
       published_durable = true;
#endif
       start_sent = (state == READY)
    :: atomic { published && lock_free && !complete && no_host && H_last < HOSTS -> start_host() }
#ifndef BUG_ASK_ONCE
    :: atomic { published && lock_free && !complete && H_up[H_last] && !in_hand[H_last] -> in_hand[H_last] = true }
#else
    :: atomic { published && lock_free && !complete && H_up[H_last] && !in_hand[H_last] && !asked -> in_hand[H_last] = true; asked = true }
#endif
#ifdef BUG_HUNG_STEAL
    :: atomic { S_hung && no_host && H_last < HOSTS -> start_host() }
    :: atomic { S_hung && !S_child && !complete && H_up[H_last] && !in_hand[H_last] -> in_hand[H_last] = true }
#endif
    od
}

proctype L() {
#if defined(BUG_SEND_AGAIN) || defined(BUG_ACKNOWLEDGE_FIRST)
    byte g;
#endif
begin:
    {
        new_folder = false; old_folder = false;              /* swept: their lock is free */
#ifdef BUG_ASK_ONCE
        asked = false;
#endif
        if
        :: published && result != NONE -> goto acknowledge
        :: published && result == NONE -> goto resolve
        :: !published && result != NONE -> goto finish
        :: !published && result == NONE && !may_launch -> goto finish
        :: !published && result == NONE && may_launch        /* never published: the first dispatch, or a repeated one */
        fi;
        dispatched = true;                                   /* durable before the launch */
        assert(execs == 0 && runs[EPILOG] == 0 && T_gone && (S_st == UNBORN || power_cut));
        if :: S_st != UNBORN -> goto finish :: else fi;      /* nothing of it ever ran, and this is another boot: as the first launch */
        /* row 1 */
        atomic { new_folder = true; lock_L = true; L_writes = true; launch_boot = boot; assert(owner == NOBODY) };
        /* row 2 */
        atomic { new_folder = false; published = true; published_durable = false };
        /* row 3; the fsync of the folder above may overlap it */
send:   atomic { if :: no_host && H_last < HOSTS -> start_host() :: else fi };
        if
        :: atomic { H_up[H_last] -> launch_to = H_last; lock_message = true; L_writes = false }
        :: !H_up[H_last] -> goto send
        fi;
#ifdef BUG_SEND_AGAIN
        g = H_last;
        if
        :: state != OFFLINE -> skip
        :: state == OFFLINE && !H_up[g] -> goto send         /* "the host died: start one, send again" */
        :: launch_to == 0 && S_st == DEAD -> skip
        fi;
#endif
#ifdef BUG_L_KEEPS_LOCK
        state != OFFLINE;
#endif
        lock_L = false;
        published_durable = true;
        /* row 5 */
        if
        :: state == READY -> start_sent = (state == READY); goto resolve
        :: launch_to == 0 && lock_H == 0 && S_st != UP       /* end of file on its connection: no supervisor */
        :: true                                              /* or none that has answered in time */
        fi;
        /* a launch that failed is withdrawn, under the lock, where nothing of it can have run; else it can be adopted */
        if
#ifndef BUG_WITHDRAW_BLIND
        :: atomic { lock_free -> owner = BY_L };
           if
           :: published && exit_observed == NONE && descriptor != WITH_LEADER && gate_opening == ABSENT && T_gone && may_withdraw ->
              d_step { writes(BY_L); published = false; old_folder = true; withdrawn = true; assert(execs == 0 && no_hook_begun) };
              published_durable = true;
              owner = NOBODY;
              goto finish
           :: else -> owner = NOBODY
           fi
#else
        :: d_step { published && exit_observed == NONE && descriptor != WITH_LEADER && gate_opening == ABSENT && T_gone ->
                    published = false; old_folder = true; withdrawn = true };
           goto finish
#endif
        :: true
        fi;

resolve:
        wait_for_end();
        if :: !published -> goto finish :: else fi;
#ifndef BUG_ACKNOWLEDGE_FIRST
        d_step { assert(applied == NONE || applied == exit_observed); applied = exit_observed; result = exit_observed };
#else
        g = exit_observed;
#endif
acknowledge:                                                 /* row 12 */
        if
        :: acknowledged != ABSENT -> skip
        :: acknowledged == ABSENT && state == COMPLETED -> acknowledge_sent = (state == COMPLETED);
           (acknowledged == DURABLE || state != COMPLETED); goto acknowledge
        :: atomic { acknowledged == ABSENT && lock_free -> owner = BY_L };
           d_step { writes(BY_L); acknowledged = APPENDED };
           fdatasync_journal();
           owner = NOBODY
        fi;
        /* row 13 */
        atomic { lock_free -> owner = BY_L };
        assert(!published || (T_gone && no_hook_runs && complete));
#ifdef BUG_UNLINK
        d_step { writes(BY_L); launched = ABSENT; gate_opening = ABSENT; exit_observed = NONE; hook_begun[EPILOG] = ABSENT;
                 hook_completed[EPILOG] = ABSENT; acknowledged = ABSENT };
        d_step { writes(BY_L); descriptor = NO_DESCRIPTOR };
        published = false;
#else
        d_step { writes(BY_L); published = false; old_folder = true };         /* the rename: the name is free in one act */
#endif
        owner = NOBODY;
#ifdef BUG_ACKNOWLEDGE_FIRST
        d_step { applied = g; result = g };
#endif
finish: old_folder = false;
        atomic { done = true; assert(!published) }
    } unless { !L_up };
    if
    :: L_up -> skip
    :: !L_up -> L_up = true; goto begin
    fi
}

/* ================================================================ A: another client, without a store; it does not acknowledge */
#ifdef ADOPTER
proctype A() {
    {
        published || done;
        wait_for_end();
        if :: atomic { published && complete -> assert(applied == NONE || applied == exit_observed); applied = exit_observed } :: else fi
    } unless { A_cut }
}
#endif

/* ================================================================ R: looks on, and concludes nothing */
#ifdef READER
proctype R() {
    byte d, x; bool free, there;
#ifdef BUG_READ
    published || done;                                       /* it has opened the folder */
    there = published; d = descriptor; x = exit_observed; free = lock_free;
#else
    if
    :: atomic { lock_free && published -> owner = BY_R };
       there = published; free = true; d = descriptor; x = exit_observed
    :: done -> goto over
    fi;
#endif
#if defined(BUG_READ) || defined(BUG_READER_CONCLUDES)
    if
    :: there && free && x == NONE && d != WITH_LEADER && boot == launch_boot -> d_step { assert(execs == 0); concluded_not_started = true }
    :: else
    fi;
#endif
over:   atomic { if :: owner == BY_R -> owner = NOBODY :: else fi }
}
#endif

/* ================================================================ who waits ends a hung supervisor */
#if KU > 0
/* by the pidfd of whom the descriptor names, or through the living host that forked it */
#define S_nameable     (descriptor_supervisor == BY_S || S_child)
#define S2_nameable(g) (descriptor_supervisor == BY_S2(g) || H_up[g])
/* hung before it has named itself, and its host is dead: held and shown; an operator finds who holds the lock. Without the lock it
   holds up nobody, and is a process too many */
#define S_held         (!S_nameable && (state == OFFLINE && (lock_S || owner == BY_S) || done))
#define S2_held(g)     (!S2_nameable(g) && (state == OFFLINE && owner == BY_S2(g) || done))
proctype Waiter() {
end_v: do
    :: d_step { L_up && S_st == UP && S_hung && (S_nameable || S_held) -> S_crashed = true; die_S() }
    :: d_step { L_up && S2_st[1] == UP && S2_hung[1] && (S2_nameable(1) || S2_held(1)) -> die_S2(1, DEAD) }
#if HOSTS > 1
    :: d_step { L_up && S2_st[2] == UP && S2_hung[2] && (S2_nameable(2) || S2_held(2)) -> die_S2(2, DEAD) }
#endif
    od
}
#endif

/* ================================================================ World */
inline one_kill_less(budget) {
    budget--; kills--;
    if :: kills == 0 -> kl = 0; kh = 0; ks = 0; kt = 0 :: else fi
}
inline crash_host(g) {
    one_kill_less(kh); H_crashed[g] = true; die_H(g)
}
inline crash_successor(g) {
    one_kill_less(ks); die_S2(g, DEAD)
}
proctype World() {
#if KP > 0
    byte g;
#endif
end_w: do
    :: atomic { T_st == T_ZOMBIE && T_parent == OF_INIT -> T_st = T_REAPED }
    :: d_step { kl + kh + ks + kt + kp + ku + kv + kc + upgrades > 0 ->             /* crashes stop: no kill can rescue what is stuck */
                kl = 0; kh = 0; ks = 0; kt = 0; kills = 0; kp = 0; ku = 0; kv = 0; kc = 0; adopter_kills = 0; upgrades = 0 }
    :: d_step { kl > 0 && L_up && !done -> one_kill_less(kl); die_L() }
    :: d_step { kh > 0 && H_up[1] && !done -> crash_host(1) }
#if HOSTS > 1
    :: d_step { kh > 0 && H_up[2] && !done -> crash_host(2) }
#endif
#if HOSTS > 2
    :: d_step { kh > 0 && H_up[3] && !done -> crash_host(3) }
#endif
    :: d_step { ks > 0 && S_st == UP -> one_kill_less(ks); S_crashed = true; die_S() }
    :: d_step { ks > 0 && S2_st[1] == UP -> crash_successor(1) }
#if HOSTS > 1
    :: d_step { ks > 0 && S2_st[2] == UP -> crash_successor(2) }
#endif
#if HOSTS > 2
    :: d_step { ks > 0 && S2_st[3] == UP -> crash_successor(3) }
#endif
    :: d_step { kt > 0 && T_alive -> one_kill_less(kt); kill_T() }
#ifdef ADOPTER
    :: d_step { adopter_kills > 0 && !A_cut && !done -> adopter_kills--; A_cut = true }
#endif
#ifdef UPGRADE
    :: atomic { upgrades > 0 && H_up[H_last] && !done && H_last < HOSTS -> upgrades--; retired[H_last] = true; start_host() }
#endif
#if KU > 0
    :: d_step { ku > 0 && S_st == UP && !S_hung -> ku--; S_hung = true }
    :: d_step { ku > 0 && S2_st[1] == UP && !S2_hung[1] -> ku--; S2_hung[1] = true }
#if HOSTS > 1
    :: d_step { ku > 0 && S2_st[2] == UP && !S2_hung[2] -> ku--; S2_hung[2] = true }
#endif
    :: d_step { kc > 0 && S_hung -> kc--; S_hung = false }
#endif
#if KV > 0
    :: d_step { kv > 0 && H_up[1] && !H_hung[1] && !done -> kv--; H_hung[1] = true }
    :: d_step { H_hung[1] -> H_hung[1] = false }             /* SIGCONT, some day */
#endif
#if KP > 0
    :: atomic { kp > 0 && !done -> kp--; power_cut = true; boot++;             /* all die; what was not fsynced may be lost */
                if :: S_st == UP -> S_crashed = true; die_S() :: else fi;
                g = 1;
                do :: g <= HOSTS -> if :: H_up[g] -> H_crashed[g] = true; die_H(g) :: else fi;
                                    if :: S2_st[g] == UP -> die_S2(g, DEAD) :: else fi; g++
                   :: else -> break od;
                g = 0;
                die_L(); A_cut = true; owner = NOBODY; lock_T = false; offline();
                if :: T_st != UNBORN -> T_st = T_REAPED; T_cut = true :: else fi;
                hook_runs[EPILOG] = false;
#ifdef PROLOG
                hook_runs[PROLOG_HOOK] = false;
#endif
                if :: published && !published_durable ->
                      if :: published = false; descriptor = NO_DESCRIPTOR; gate_opening = ABSENT; launched = ABSENT; exit_observed = NONE;
                            exit_durable = false; hook_begun[EPILOG] = ABSENT; hook_completed[EPILOG] = ABSENT; acknowledged = ABSENT
                         :: skip fi
                   :: else fi;
                if :: old_folder && published_durable -> if :: published = true; old_folder = false; withdrawn = false :: skip fi :: else fi;
                if :: descriptor != NO_DESCRIPTOR -> descriptor = NO_DESCRIPTOR :: descriptor == WITH_LEADER -> descriptor = NO_LEADER :: skip fi;
                if
                :: skip
                :: lose_unsynced(gate_opening); lose_unsynced(launched); lose_unsynced(emptied); lose_unsynced(acknowledged);
                   lose_unsynced(hook_begun[EPILOG]); lose_unsynced(hook_completed[EPILOG]);
#ifdef PROLOG
                   lose_unsynced(hook_begun[PROLOG_HOOK]); lose_unsynced(hook_completed[PROLOG_HOOK]);
#endif
                   if :: !exit_durable -> exit_observed = NONE :: else fi
                fi }
#endif
    od
}

init {
    atomic {
        L_up = true; start_host(); run L(); run World();
#ifdef ADOPTER
        run A();
#endif
#ifdef READER
        run R();
#endif
#if KU > 0 && !defined(BUG_HUNG_WAIT)
        run Waiter();
#endif
    }
}
