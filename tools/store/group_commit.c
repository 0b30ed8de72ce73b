/*
 * See group_commit.h.
 *
 *   et_group_commit_run  puts a job into the queue and sleeps until it is done
 *   commit_thread        calls run_group() while there are jobs
 *   run_group            begin; all jobs, including new ones; commit; wake their owners
 */
#include "tools/store/group_commit.h"
#include "tools/lib/time_text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_JOBS = 256 };

struct commit_job {
    et_group_commit_call *call;
    void *context;
    struct et_group_commit_result result;
    bool done;
    pthread_cond_t finished;
    struct commit_job *next;
};

struct et_group_commit {
    struct et_store *store;
    unsigned group_ms;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct commit_job *first, **last;
    size_t waiting;
    bool stopping;
};

static struct commit_job *take_jobs(struct et_group_commit *commit)
{
    pthread_mutex_lock(&commit->lock);
    struct commit_job *job = commit->first;
    if (job) {
        commit->first = job->next;
        commit->last = commit->first ? commit->last : &commit->first;
        commit->waiting--;
    }
    pthread_mutex_unlock(&commit->lock);
    return job;
}

static void finish_jobs(struct et_group_commit *commit, struct commit_job *jobs,
                        const struct et_group_commit_result *result)
{
    pthread_mutex_lock(&commit->lock);
    while (jobs) {
        struct commit_job *job = jobs;
        jobs = job->next; /* read before: the owner may free the job as soon as it is done */
        job->result = *result;
        job->done = true;
        pthread_cond_signal(&job->finished);
    }
    pthread_mutex_unlock(&commit->lock);
}

/* False: there was no job. */
static bool run_group(struct et_group_commit *commit)
{
    struct commit_job *group = NULL, *job = take_jobs(commit);
    if (!job) {
        return false;
    }
    struct et_group_commit_result result = {.err = et_store_group_begin(commit->store)};
    int64_t end = et_monotonic() + (int64_t)commit->group_ms * 1000000;
    for (size_t count = 1; job; count++) {
        if (!result.err) {
            job->call(commit->store, job->context);
        }
        job->next = group;
        group = job;
        job = count < GROUP_JOBS && et_monotonic() < end ? take_jobs(commit) : NULL;
    }
    result.err = result.err ? result.err : et_store_group_end(commit->store);
    if (result.err) {
        memcpy(result.why, et_store_why(commit->store), strlen(et_store_why(commit->store)) + 1);
    }
    finish_jobs(commit, group, &result);
    return true;
}

static void *commit_thread(void *context)
{
    struct et_group_commit *commit = context;
    bool stopping = false;
    while (!stopping) {
        while (run_group(commit)) {
        }
        pthread_mutex_lock(&commit->lock);
        while (!commit->first && !commit->stopping) {
            pthread_cond_wait(&commit->work, &commit->lock);
        }
        stopping = !commit->first;
        pthread_mutex_unlock(&commit->lock);
    }
    return NULL;
}

struct et_group_commit_result et_group_commit_run(struct et_group_commit *commit, et_group_commit_call *call,
                                                  void *context)
{
    struct commit_job job = {.call = call, .context = context, .finished = PTHREAD_COND_INITIALIZER};
    pthread_mutex_lock(&commit->lock);
    *commit->last = &job;
    commit->last = &job.next;
    commit->waiting++;
    pthread_cond_signal(&commit->work);
    while (!job.done) {
        pthread_cond_wait(&job.finished, &commit->lock);
    }
    pthread_mutex_unlock(&commit->lock);
    pthread_cond_destroy(&job.finished);
    return job.result;
}

size_t et_group_commit_waiting(struct et_group_commit *commit)
{
    pthread_mutex_lock(&commit->lock);
    size_t waiting = commit->waiting;
    pthread_mutex_unlock(&commit->lock);
    return waiting;
}

struct et_group_commit *et_group_commit_start(struct et_store *store, unsigned group_ms)
{
    struct et_group_commit *commit = et_alloc(1, sizeof *commit);
    commit->store = store;
    commit->group_ms = group_ms;
    commit->last = &commit->first;
    pthread_mutex_init(&commit->lock, NULL);
    pthread_cond_init(&commit->work, NULL);
    if (pthread_create(&commit->thread, NULL, commit_thread, commit) != 0) {
        free(commit);
        return NULL;
    }
    return commit;
}

void et_group_commit_stop(struct et_group_commit *commit)
{
    pthread_mutex_lock(&commit->lock);
    commit->stopping = true;
    pthread_cond_signal(&commit->work);
    pthread_mutex_unlock(&commit->lock);
    pthread_join(commit->thread, NULL);
    pthread_mutex_destroy(&commit->lock);
    pthread_cond_destroy(&commit->work);
    free(commit);
}
