/*
 * Two steps of one host, for Spin: what copies of one step's descriptors do in processes that were forked for the other.
 *
 *   Launcher    of both: makes each lock, sends it once, closes it; may have forked a child that keeps a copy for ever
 *   Host        takes a launch, forks a supervisor, closes what it received; a new one is started when a connect is refused
 *   Supervisor  closes all but its keep list, lets go of the passed lock and takes it anew; its leader may run for ever
 *   Watch       what the host, or the next one, has to do for a step: hear of its supervisor's death, wait for the leader, take the lock
 *
 * Copies are noted where they are: a lock is free, a channel at its end, a listener gone only when nobody has a copy any more. Steps that
 * run for ever are the point: what they hold open is never closed. -DBUG_<NAME> and KS, KH (kills of supervisors and hosts) as in step.pml.
 * Not modelled: what is recorded, and by whom (step.pml has that); T's copies, which close at its exec.
 */
#ifndef KS
#define KS 2
#endif
#ifndef KH
#define KH 1
#endif
#define UNBORN 0
#define UP     1
#define DEAD   2
#define RUNS   1
#define OVER   2

/* the launcher's description of each lock: its copies, those of a supervisor by supervisor and lock; released: LOCK_UN on it */
bool lock_launcher[2], lock_message[2], lock_host[2], lock_child[2], released[2];
bool lock_of_0[2], lock_of_1[2];
bool own[2], watched[2];                /* held by a description of its own: by the supervisor, by Watch */
/* the channel of each supervisor to its host: copies of the supervisor's end */
bool end_host[2], end_of_0[2], end_of_1[2];
/* the socket that is listened on: copies */
bool listener_host, listener_of[2];
bool H_up;
byte S[2], T[2];
byte ks = KS, kh = KH;

#define lock_free(i) ((released[i] || !(lock_launcher[i] || lock_message[i] || lock_host[i] || lock_child[i] || lock_of_0[i] || lock_of_1[i])) \
                      && !own[i] && !watched[i])
#define at_end(i)    (!end_host[i] && !end_of_0[i] && !end_of_1[i])
#define reachable    (listener_host || listener_of[0] || listener_of[1])

inline close_all(i) {
    if
    :: i == 0 -> lock_of_0[0] = false; lock_of_0[1] = false; end_of_0[0] = false; end_of_0[1] = false
    :: i == 1 -> lock_of_1[0] = false; lock_of_1[1] = false; end_of_1[0] = false; end_of_1[1] = false
    fi;
    listener_of[i] = false
}
inline die_supervisor(i) {
    close_all(i); own[i] = false; S[i] = DEAD
}

proctype Supervisor(byte i) {
    {
#ifndef BUG_SUPERVISOR_KEEPS_ALL
        d_step { listener_of[i] = false; if :: i == 0 -> lock_of_0[1] = false; end_of_0[1] = false
                                            :: i == 1 -> lock_of_1[0] = false; end_of_1[0] = false fi };
#endif
#ifndef BUG_LOCK_NOT_MOVED
        released[i] = true;
        atomic { lock_free(i) -> own[i] = true };
#endif
        T[i] = RUNS;
        if
        :: T[i] = OVER
        :: skip;
end_s:     false                                             /* a leader that never ends */
        fi;
        d_step { die_supervisor(i) }
    } unless { S[i] == DEAD }
}

proctype Watch(byte i) {
end_w1: S[i] == DEAD;
    (at_end(i) || !H_up);                                    /* by the end of the channel; a new host asks for the lock */
end_w2: T[i] != RUNS;
    atomic { lock_free(i) -> watched[i] = true };
    watched[i] = false
}

/* a fork copies all that is open */
inline fork_supervisor(i) {
    end_host[i] = true;
    if
    :: i == 0 -> lock_of_0[0] = lock_host[0]; lock_of_0[1] = lock_host[1]; end_of_0[0] = end_host[0]; end_of_0[1] = end_host[1]
    :: i == 1 -> lock_of_1[0] = lock_host[0]; lock_of_1[1] = lock_host[1]; end_of_1[0] = end_host[0]; end_of_1[1] = end_host[1]
    fi;
    listener_of[i] = listener_host;
    S[i] = UP; run Supervisor(i); run Watch(i)
}
inline take_launch(i) {
    atomic { lock_message[i] -> lock_message[i] = false; lock_host[i] = true };
    atomic { fork_supervisor(i) };
#ifndef BUG_HOST_KEEPS_END
    end_host[i] = false;
#endif
#ifndef BUG_HOST_KEEPS_LOCK
    lock_host[i] = false
#else
    skip
#endif
}
proctype Host() {
    {
end_h:  do
        :: take_launch(0)
        :: take_launch(1)
        od
    } unless { !H_up }
}

proctype Launcher() {
    byte i;
    do
    :: i < 2 ->
       lock_launcher[i] = true;
       if :: lock_child[i] = true :: skip fi;                /* a fork of the launcher, for as long as it likes */
       if
       :: atomic { H_up -> lock_message[i] = true }
       :: atomic { !reachable -> H_up = true; listener_host = true; run Host(); lock_message[i] = true }
       fi;
       lock_launcher[i] = false;
       i++
    :: else -> break
    od
}

proctype World() {
end_w: do
    :: d_step { ks > 0 && S[0] == UP -> ks--; die_supervisor(0) }
    :: d_step { ks > 0 && S[1] == UP -> ks--; die_supervisor(1) }
    :: d_step { kh > 0 && H_up -> kh--; H_up = false; listener_host = false; end_host[0] = false; end_host[1] = false;
                lock_host[0] = false; lock_host[1] = false; lock_message[0] = false; lock_message[1] = false }
    :: d_step { ks + kh > 0 -> ks = 0; kh = 0 }              /* crashes stop */
    /* killed before it had taken the lock anew: the launcher's fork holds it until it ends, and the step waits for that */
    :: d_step { lock_child[0] && S[0] == DEAD && T[0] == UNBORN -> lock_child[0] = false }
    :: d_step { lock_child[1] && S[1] == DEAD && T[1] == UNBORN -> lock_child[1] = false }
    od
}

init { atomic { run Launcher(); run World() } }
