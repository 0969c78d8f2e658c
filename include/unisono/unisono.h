// SPDX-License-Identifier: Apache-2.0
// Unisono's C interface: every rank calls all_reduce, and every rank ends with the same bits.
//
// Conventions of every function here:
//
// - Errors. A function that can fail returns a status and puts one line about the failure where
//   unisono_last_error() finds it. Outputs are written only on success. UNISONO_INVALID_ARGUMENT
//   and UNISONO_UNSUPPORTED come before any communication and change nothing. Any later error
//   breaks the communicator: every pending and later call on it ends with an error, and all that
//   remains is to destroy it. No exception leaves this interface.
// - Threads. Functions without a communicator may be called from any thread. A communicator is used
//   by one thread at a time; with the setting UNISONO_PROGRESS=thread by any, except that a group
//   has the communicator to itself. unisono_comm_abort() may be called from any thread at any time.
//   Different communicators have nothing to do with each other.
// - Order. All ranks make the same calls on a communicator, in the same order.
// - Fork. A child must not use a communicator of its parent: it gets UNISONO_INVALID_ARGUMENT. It
//   may destroy its copy, which the parent does not notice, and create communicators of its own.
// - The host process. No signal handlers, no output but the log on standard error, no exit.
// - Pointers to text that are returned stay the library's.
#ifndef UNISONO_UNISONO_H_
#define UNISONO_UNISONO_H_

#include <stddef.h>
#include <stdint.h>

#define UNISONO_VERSION_MAJOR 0
#define UNISONO_VERSION_MINOR 1
#define UNISONO_VERSION_PATCH 0

#if defined(__GNUC__)
#define UNISONO_API __attribute__((visibility("default")))
#else
#define UNISONO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The enumerations have types of fixed width, so that any value may be passed and is checked.

// Ordered by what must be rebuilt after it: nothing, the call, a peer, the communicator.
typedef int32_t unisono_status_t;
enum {
  UNISONO_OK = 0,
  UNISONO_IN_PROGRESS = 1,       // unisono_test(): the call has not ended; no error
  UNISONO_INVALID_ARGUMENT = 2,  // the caller's mistake
  UNISONO_UNSUPPORTED = 3,       // asked for by name and cannot serve
  UNISONO_OUT_OF_RESOURCES = 4,  // memory, descriptors
  UNISONO_MISMATCH = 5,          // ranks made different calls
  UNISONO_TIMEOUT = 6,           // a deadline passed
  UNISONO_PEER_FAILED = 7,       // a peer died or closed
  UNISONO_ABORTED = 8,           // this communicator was aborted
  UNISONO_SYSTEM = 9,            // the operating system refused something
  UNISONO_INTERNAL = 10          // a bug of the library
};

// Element types.
typedef int32_t unisono_data_type_t;
enum {
  UNISONO_INT8 = 0,
  UNISONO_UINT8 = 1,
  UNISONO_INT32 = 2,
  UNISONO_UINT32 = 3,
  UNISONO_INT64 = 4,
  UNISONO_UINT64 = 5,
  UNISONO_FLOAT16 = 6,   // IEEE 754 binary16
  UNISONO_BFLOAT16 = 7,  // the upper half of a float
  UNISONO_FLOAT32 = 8,
  UNISONO_FLOAT64 = 9
};

// Reductions. UNISONO_AVG is the sum divided once by the number of contributing ranks (integers:
// the wrapped sum, truncated towards zero).
typedef int32_t unisono_op_t;
enum { UNISONO_SUM = 0, UNISONO_PROD = 1, UNISONO_MIN = 2, UNISONO_MAX = 3, UNISONO_AVG = 4 };

// A member of a communicator: one of `size` ranks, numbered from 0.
typedef struct unisono_comm* unisono_comm_t;

// A started call of one communicator. 0 is never one. Plain value: copies name the same call.
typedef uint64_t unisono_request_t;

// ---- Options ----
//
// An options struct begins with its own size, so that it can grow: initialise it with its macro.
// NULL, or a struct that is zero all through, stands for the defaults. A struct of a newer header
// is accepted as long as what this library does not know is zero.

// How a communicator or a unique id is made. Read during the call only.
typedef struct unisono_options {
  size_t size;  // sizeof(unisono_options_t)
  // "UNISONO_NAME=value" strings, ended by NULL; or NULL. They override the UNISONO_* variables of
  // the environment, which are read too. `unisono settings` lists them.
  const char* const* settings;
  // Ranks that contribute nothing, but get the result (dedicated servers), in ascending order; the
  // same on all ranks; or NULL.
  const int* servers;
  size_t server_count;
} unisono_options_t;

#define UNISONO_OPTIONS_INIT \
  { sizeof(unisono_options_t), NULL, NULL, 0 }

// What a codec has lost of one tensor so far, to be added at its next call (see Error feedback).
typedef struct unisono_feedback* unisono_feedback_t;

// How one call is run; the same on all ranks but for which feedback it is. Read during the call only.
typedef struct unisono_call_options {
  size_t size;  // sizeof(unisono_call_options_t)
  // What must run the call, e.g. "ring depth=4"; NULL or "": settings and rules decide. With
  // "links=between_hosts" a codec leaves contributions inside a host as they are; results are
  // encoded on every link, so that all ranks get the same bits; on one host no codec runs. Parsed
  // at its first use, and remembered by the communicator.
  const char* choice;
  // The payload's wire format: "none", "fp16", "bf16", "int8" or "onebit", for UNISONO_FLOAT32. Used as
  // named. NULL or "": as the choice, the settings and the rules say.
  const char* codec;
  // How much a codec that the rules pick may add to the error, where 1 is the largest sum that the
  // largest |contribution| allows (UNISONO_AVG: the largest |contribution|). 0: the rules pick no
  // codec. The built-in rules pick int8, or onebit (with which to give a feedback), between hosts
  // only.
  double max_error;
  // Of this tensor, or NULL; all ranks give one, or none does. The call's until it has ended.
  unisono_feedback_t feedback;
} unisono_call_options_t;

#define UNISONO_CALL_OPTIONS_INIT \
  { sizeof(unisono_call_options_t), NULL, NULL, 0, NULL }

// ---- Communicators ----
//
// Creation is collective: every rank calls it, and it returns when all are connected. Errors:
// UNISONO_INVALID_ARGUMENT (arguments, an unknown setting, a value out of range),
// UNISONO_UNSUPPORTED (a forced transport that does not reach), UNISONO_MISMATCH (ranks with
// different settings), UNISONO_TIMEOUT naming the missing ranks (setting UNISONO_TIMEOUT),
// UNISONO_OUT_OF_RESOURCES, UNISONO_SYSTEM. The caller owns the new communicator, and ends it with
// unisono_comm_destroy().

// Rank and size from what a launcher has put into the environment: RANK and WORLD_SIZE (torchrun,
// `unisono run`), or the variables of Open MPI, MPICH or Slurm. Without any: a world of one.
UNISONO_API unisono_status_t unisono_comm_create_from_environment(const unisono_options_t* options,
                                                                  unisono_comm_t* comm);

// All that a rank needs to find rank 0. Plain bytes, to be handed to all ranks by any means;
// whoever holds them can join, so only ranks should.
typedef struct unisono_unique_id {
  uint8_t bytes[128];
} unisono_unique_id_t;

// Makes an id for one communicator; call it in the process where rank 0 will be. Listens on a port
// (settings UNISONO_INTERFACE, UNISONO_PORT_RANGE) until rank 0 has used the id. Not collective.
UNISONO_API unisono_status_t unisono_get_unique_id(const unisono_options_t* options,
                                                   unisono_unique_id_t* id);

// Ranks that hold the same id: processes, threads, or any mix. `id` is read during the call only.
UNISONO_API unisono_status_t unisono_comm_create(const unisono_unique_id_t* id, int size, int rank,
                                                 const unisono_options_t* options,
                                                 unisono_comm_t* comm);

// The caller's own all-gather, as MPI_Allgather: puts the `bytes` at `mine` of every rank into
// `all` (size × bytes, in rank order). `bytes` is the same on all ranks. Returns 0, or an error
// number of its own. Must not throw or jump out.
typedef int (*unisono_all_gather_t)(void* context, const void* mine, void* all, size_t bytes);

// Ranks that can already reach each other. `all_gather` is called with `context` by this thread,
// during this call only.
UNISONO_API unisono_status_t unisono_comm_create_from_callback(unisono_all_gather_t all_gather,
                                                               void* context, int size, int rank,
                                                               const unisono_options_t* options,
                                                               unisono_comm_t* comm);

// All ranks of a communicator of threads at once: comms[0] … comms[size - 1], each to be used and
// destroyed by a thread of its own. Not collective: one thread calls it. Binds nobody (UNISONO_BIND).
UNISONO_API unisono_status_t unisono_comm_create_local(int size, const unisono_options_t* options,
                                                       unisono_comm_t* comms);

// -1 for NULL.
UNISONO_API int unisono_comm_rank(unisono_comm_t comm);
UNISONO_API int unisono_comm_size(unisono_comm_t comm);

// Every pending and later call ends with UNISONO_ABORTED within milliseconds. Local: other ranks
// notice when they wait for this one. From any thread, also while another is inside a call.
UNISONO_API unisono_status_t unisono_comm_abort(unisono_comm_t comm);

// Local and bounded: waits for no other rank. Started calls end as aborted; after the return no
// rank touches their buffers. NULL is allowed. The handle must not be used again.
UNISONO_API unisono_status_t unisono_comm_destroy(unisono_comm_t comm);

// ---- All-reduce ----

// Every rank's `output` becomes the reduction over all ranks' `input`: `count` elements of `type`
// each. `input` may be `output` (in place); else they must not overlap. Any alignment, any count,
// also 0. `type`, `op`, `count` and `options` are the same on all ranks.
// Blocks until this rank's output is complete. Between unisono_group_begin() and _end(): only notes
// the call. Errors: UNISONO_INVALID_ARGUMENT; UNISONO_UNSUPPORTED (a choice that cannot run here);
// UNISONO_MISMATCH, UNISONO_TIMEOUT, UNISONO_PEER_FAILED, UNISONO_ABORTED.
UNISONO_API unisono_status_t unisono_all_reduce(unisono_comm_t comm, const void* input,
                                                void* output, size_t count,
                                                unisono_data_type_t type, unisono_op_t op,
                                                const unisono_call_options_t* options);

// The same without waiting. The buffers are the call's until it has ended. Ranks start calls in the
// same order, and may wait for them in any. Moves on in test and wait, and by itself only with
// UNISONO_PROGRESS=thread. Not inside a group.
UNISONO_API unisono_status_t unisono_all_reduce_start(unisono_comm_t comm, const void* input,
                                                      void* output, size_t count,
                                                      unisono_data_type_t type, unisono_op_t op,
                                                      const unisono_call_options_t* options,
                                                      unisono_request_t* request);

// UNISONO_IN_PROGRESS, or how the call ended; the request is used up then.
UNISONO_API unisono_status_t unisono_test(unisono_comm_t comm, unisono_request_t request);

// How the call ended; uses the request up. UNISONO_INVALID_ARGUMENT for a request that was used up
// before, or is another communicator's.
UNISONO_API unisono_status_t unisono_wait(unisono_comm_t comm, unisono_request_t request);

// ---- Error feedback ----
//
// A lossy codec repeats its errors, call by call. With feedback, what it has lost of a tensor is added at
// the tensor's next call, so over many calls nothing is lost. Each rank makes a feedback for each tensor
// (the same name and count on all ranks), and gives it to each call of that tensor, with UNISONO_SUM or
// UNISONO_AVG. It takes up to 8 bytes an element. A call with a feedback of another count or communicator,
// or of one that another call uses, is UNISONO_INVALID_ARGUMENT and changes nothing. After a call that
// failed, import or reset it. One thread at a time.

// Nothing lost yet. `name` is copied. UNISONO_INVALID_ARGUMENT, UNISONO_OUT_OF_RESOURCES.
UNISONO_API unisono_status_t unisono_feedback_create(const char* name, size_t count,
                                                     unisono_feedback_t* feedback);

// UNISONO_INVALID_ARGUMENT while a call uses it; else the handle must not be used again. NULL is allowed.
UNISONO_API unisono_status_t unisono_feedback_destroy(unisono_feedback_t feedback);

// Forgets what was lost. Errors of this and the following functions: UNISONO_INVALID_ARGUMENT, also while
// a call uses the feedback; then nothing has changed.
UNISONO_API unisono_status_t unisono_feedback_reset(unisono_feedback_t feedback);

// The first call binds a feedback to its communicator; from now on it is this one's, with all that was
// lost. Not collective.
UNISONO_API unisono_status_t unisono_feedback_rebind(unisono_feedback_t feedback,
                                                     unisono_comm_t comm);

// For a checkpoint: all but the communicator, as bytes with a version and a checksum. Sets *size to how
// many there are, and writes them to `bytes` if that is not NULL: UNISONO_INVALID_ARGUMENT if `capacity`
// is less.
UNISONO_API unisono_status_t unisono_feedback_export(unisono_feedback_t feedback, void* bytes,
                                                     size_t capacity, size_t* size);

// Goes on from an export of the same name, count and rank. UNISONO_INVALID_ARGUMENT for another one, and
// for bytes that are damaged.
UNISONO_API unisono_status_t unisono_feedback_import(unisono_feedback_t feedback,
                                                     const void* bytes, size_t size);

typedef struct unisono_feedback_state {
  size_t size;      // sizeof(unisono_feedback_state_t), set by the caller
  double norm;      // of what is lost so far, on this rank (L2)
  uint64_t steps;   // calls that have ended
  uint64_t resets;  // by unisono_feedback_reset
} unisono_feedback_state_t;

#define UNISONO_FEEDBACK_STATE_INIT \
  { sizeof(unisono_feedback_state_t), 0, 0, 0 }

UNISONO_API unisono_status_t unisono_feedback_query(unisono_feedback_t feedback,
                                                    unisono_feedback_state_t* state);

// ---- Memory ----
//
// Buffers that all ranks of a host map save the copies in and out of staging: an all-reduce then reads each
// rank's input and writes each rank's output where they lie. It does so where the input and output of every rank
// lie in memory from unisono_alloc(), anywhere in it, or where all ranks are threads of one process, with any
// memory; else the call runs as usual, with the same bits. Very short vectors, codecs and UNISONO_FORM=staged or
// schedule do without too. Which form ran, unisono_all_reduce_plan() tells afterwards: field `ran` is "mapped".

// Every rank gets zeroed memory of its own, which begins with a page; `bytes`, at least 1, is the same on all
// ranks. Works everywhere: where the ranks are not all of one host it is ordinary memory. Collective,
// once all calls have ended. UNISONO_OUT_OF_RESOURCES and UNISONO_MISMATCH are the same on all ranks and, here,
// change nothing. After a call that failed, peers may write to its output until the memory is freed. Where it is
// mapped, a child of fork() shares it.
UNISONO_API unisono_status_t unisono_alloc(unisono_comm_t comm, size_t bytes, void** memory);

// Frees what unisono_alloc() gave, once all calls have ended. Collective: waits for the others to free the same
// memory, or, on a communicator that has failed, for nobody. UNISONO_INVALID_ARGUMENT (not the beginning of an
// allocation, or calls that have not ended) changes nothing; after any other error too the memory is gone. NULL
// is allowed. unisono_comm_destroy() frees what is left.
UNISONO_API unisono_status_t unisono_free(unisono_comm_t comm, void* memory);

// ---- Groups ----
//
// Many buffers of any counts, types and operations as one call. All-reduces between begin and end
// are noted, and end runs them all, overlapped. Those of at most UNISONO_FUSE_BYTES (a setting) and
// of equal type, operation, choice, codec and max_error, and without feedback, are packed together, and
// travel as one. A group's calls are
// the same, in the same order, on all ranks; no output overlaps another call's buffers.

// Opens a group; groups do not nest.
UNISONO_API unisono_status_t unisono_group_begin(unisono_comm_t comm);

// Runs the group, and blocks until all outputs are complete. If a call of the group had an error
// when it was noted, runs nothing and repeats that error. The group is over in any case.
UNISONO_API unisono_status_t unisono_group_end(unisono_comm_t comm);

// Ends the group without running it.
UNISONO_API unisono_status_t unisono_group_discard(unisono_comm_t comm);

// ---- Questions ----

// What runs a call, and why; and how the last one ran. Text that is too long is cut.
typedef struct unisono_plan {
  size_t size;          // sizeof(unisono_plan_t), set by the caller
  char choice[128];     // "ring depth=4"
  char reason[256];     // "forced by the call", "rule 'bytes<=8K: one_shot'"
  char form[32];        // "schedule", or the name of a hand-written form: "line", "lines", "slot", "two_shot",
                        // "mapped". For private buffers, unless all ranks are threads of one process; see `ran`
  char transport[64];   // names joined by '+'; "none" in a world of one
  uint64_t wire_bytes;  // payload that this rank sends
  uint64_t slices;      // pieces that the vector is cut into; 0 for a count of 0
  char ran[32];         // the form that ran this rank's newest call with these arguments that has ended; "" if none is
                        // remembered
} unisono_plan_t;

#define UNISONO_PLAN_INIT \
  { sizeof(unisono_plan_t), "", "", "", "", 0, 0, "" }

// Fills *plan for a call with these arguments outside a group. No communication. Errors: as of the
// call itself.
UNISONO_API unisono_status_t unisono_all_reduce_plan(unisono_comm_t comm, size_t count,
                                                     unisono_data_type_t type, unisono_op_t op,
                                                     const unisono_call_options_t* options,
                                                     unisono_plan_t* plan);

// A status in words, e.g. "timeout"; "unknown status" for a number that is none.
UNISONO_API const char* unisono_status_string(unisono_status_t status);

// The last failure of this thread in any function, e.g. a creation: "" if there was none. Stays
// until this thread's next failure.
UNISONO_API const char* unisono_last_error(void);

// The last failure on this communicator in any thread: "" if there was none. A copy of this
// thread's, until it calls this function again.
UNISONO_API const char* unisono_comm_last_error(unisono_comm_t comm);

// Of the library that is loaded: "0.1.0".
UNISONO_API const char* unisono_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // UNISONO_UNISONO_H_
