/*
 * libnvidia-ml.so.1 for tests: the functions that watchdog/probes/nvml.py calls through pynvml.
 *
 * The world is a text file named by NVML_STUB_WORLD, read anew at every call. A line is an
 * address, a question and its answer; "*" is every card; the first line that fits counts.
 *
 *     0000:05:00.0 CurrPcieLinkGeneration 4
 *     0000:05:00.0 Name NVIDIA GeForce RTX 3090
 *     0000:05:00.0 Field94 7
 *     0000:05:00.0 ComputeRunningProcesses 4711 4712
 *     0000:09:00.0 PerformanceState !15          the call returns this error
 *     0000:0b:00.0 CurrPcieLinkWidth hang        the call never returns
 *     - Init !9                                  of no card
 *
 * A card without any line of its own is not found; a question without a line is not supported.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { MOST_CARDS = 16, MOST_LINE = 512 };

typedef struct { char address[32]; } *device_t;
typedef struct { unsigned gpu, memory; } rates_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} process_t;
typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    int status;
    union { double d; unsigned ui; unsigned long long ull; } value;
} field_t;

static struct { char address[32]; } cards[MOST_CARDS];
static volatile int running;

/* The answer of `who` to `question` into `answer`; what the call returns. */
static int ask(const char *who, const char *question, char answer[MOST_LINE])
{
    char line[MOST_LINE], address[32], word[64];
    int found = 0, at = 0;
    FILE *world = fopen(getenv("NVML_STUB_WORLD"), "r");

    if (!world)
        return NOT_SUPPORTED;
    while (!found && fgets(line, sizeof line, world)) {
        line[strcspn(line, "\n")] = '\0';
        found = sscanf(line, "%31s %63s %n", address, word, &at) == 2 &&
                (!strcmp(address, who) || (!strcmp(address, "*") && *who != '-')) &&
                !strcmp(word, question);
    }
    fclose(world);
    if (!found)
        return NOT_SUPPORTED;
    strcpy(answer, line + at);
    if (!strcmp(answer, "hang"))
        for (;;)
            pause();
    return answer[0] == '!' ? atoi(answer + 1) : OK;
}

static int number(device_t card, const char *question, unsigned long long *value)
{
    char answer[MOST_LINE];
    int status = running ? ask(card->address, question, answer) : UNINITIALIZED;

    if (status == OK)
        *value = strtoull(answer, NULL, 0);
    return status;
}

#define NUMBER(question, type)                                   \
    int nvmlDeviceGet##question(device_t card, type *told)       \
    {                                                            \
        unsigned long long value = 0;                            \
        int status = number(card, #question, &value);            \
        *told = (type)value;                                     \
        return status;                                           \
    }

NUMBER(CurrPcieLinkGeneration, unsigned)
NUMBER(CurrPcieLinkWidth, unsigned)
NUMBER(MaxPcieLinkGeneration, unsigned)
NUMBER(MaxPcieLinkWidth, unsigned)
NUMBER(GpuMaxPcieLinkGeneration, unsigned)
NUMBER(PcieReplayCounter, unsigned)
NUMBER(PerformanceState, unsigned)
#ifndef OLD_DRIVER
NUMBER(CurrentClocksEventReasons, unsigned long long)
#endif
NUMBER(CurrentClocksThrottleReasons, unsigned long long)

int nvmlInitWithFlags(unsigned flags)
{
    char answer[MOST_LINE];
    int status = ask("-", "Init", answer);

    (void)flags;
    running = status == OK || status == NOT_SUPPORTED;
    return running ? OK : status;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device_t *card)
{
    char answer[MOST_LINE];
    int status = running ? ask(address, "Handle", answer) : UNINITIALIZED;
    int i = 0;

    if (status != OK)
        return status == NOT_SUPPORTED ? NOT_FOUND : status;
    while (i < MOST_CARDS - 1 && cards[i].address[0] && strcmp(cards[i].address, address))
        i++;
    snprintf(cards[i].address, sizeof cards[i].address, "%s", address);
    *card = (device_t)&cards[i];
    return OK;
}

int nvmlDeviceGetName(device_t card, char *name, unsigned length)
{
    char answer[MOST_LINE];
    int status = ask(card->address, "Name", answer);

    if (status == OK)
        snprintf(name, length, "%s", answer);
    return status;
}

int nvmlDeviceGetUtilizationRates(device_t card, rates_t *rates)
{
    unsigned long long gpu = 0;
    int status = number(card, "Utilization", &gpu);

    rates->gpu = (unsigned)gpu;
    return status;
}

int nvmlDeviceGetMemoryInfo(device_t card, memory_t *memory)
{
    int status = number(card, "MemoryTotal", &memory->total);

    return status == OK ? number(card, "MemoryUsed", &memory->used) : status;
}

int nvmlDeviceGetFieldValues(device_t card, int count, field_t *fields)
{
    char question[32];

    for (int i = 0; i < count; i++) {
        snprintf(question, sizeof question, "Field%u", fields[i].id);
        fields[i].type = 3;
        fields[i].status = number(card, question, &fields[i].value.ull);
    }
    return OK;
}

static int processes(device_t card, const char *question, unsigned *count, process_t *told)
{
    char answer[MOST_LINE], *rest = NULL;
    int status = ask(card->address, question, answer);
    unsigned found = 0, room = *count;

    if (status != OK)
        return status;
    for (char *pid = strtok_r(answer, " ", &rest); pid; pid = strtok_r(NULL, " ", &rest)) {
        if (told && found < room)
            told[found] = (process_t){.pid = (unsigned)atoi(pid)};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

#define PROCESSES(kind, version)                                                   \
    int nvmlDeviceGet##kind##RunningProcesses_##version(device_t card, unsigned *count, \
                                                        process_t *told)           \
    {                                                                              \
        return processes(card, #kind "RunningProcesses", count, told);             \
    }

#ifndef OLD_DRIVER
PROCESSES(Compute, v3)
PROCESSES(Graphics, v3)
#endif
PROCESSES(Compute, v2)
PROCESSES(Graphics, v2)
