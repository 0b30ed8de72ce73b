/* See terminal.h. Restoring the terminal also runs in signal handlers, so it uses only write() and tcsetattr(). */
#include "tools/cmd/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char ENTER[] = "\033[?1049h\033[?25l", LEAVE[] = "\033[?25h\033[?1049l";

/* Signals that end the program; the terminal is restored first. */
static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static struct termios before, taken;
static volatile sig_atomic_t is_open, redraw;

static void write_to_terminal(const char *text, size_t size)
{
    ssize_t written = write(STDOUT_FILENO, text, size);
    (void)written; /* ignored: the terminal may be gone */
}

static void restore_terminal(void)
{
    if (is_open) {
        is_open = 0;
        write_to_terminal(LEAVE, sizeof LEAVE - 1);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
}

static void enter_raw_mode(void)
{
    is_open = 1;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &taken);
    write_to_terminal(ENTER, sizeof ENTER - 1);
}

/* SA_RESETHAND has removed the handler, so raise() has the signal's default effect. */
static void restore_and_raise(int number)
{
    restore_terminal();
    raise(number);
}

static void on_stop(int number);

static void set_handler(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void on_stop(int number)
{
    int kept = errno;
    sigset_t own;
    restore_terminal();
    set_handler(number, SIG_DFL, 0);
    sigemptyset(&own);
    sigaddset(&own, number);
    sigprocmask(SIG_UNBLOCK, &own, NULL);
    raise(number); /* stops here until the process is continued */
    set_handler(number, on_stop, 0);
    enter_raw_mode();
    redraw = 1;
    errno = kept;
}

static void on_resize(int number)
{
    (void)number;
    redraw = 1;
}

bool et_terminal_open(void)
{
    const char *kind = getenv("TERM");
    static bool registered;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !kind || !*kind || strcmp(kind, "dumb") == 0 ||
        tcgetattr(STDIN_FILENO, &before) != 0 || (!registered && atexit(restore_terminal) != 0)) {
        return false;
    }
    registered = true;
    taken = before;
    taken.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    taken.c_cc[VMIN] = 1;
    taken.c_cc[VTIME] = 0;
    for (size_t i = 0; i < sizeof ending_signals / sizeof *ending_signals; i++) {
        set_handler(ending_signals[i], restore_and_raise, (int)SA_RESETHAND);
    }
    set_handler(SIGTSTP, on_stop, 0);
    set_handler(SIGWINCH, on_resize, 0);
    enter_raw_mode();
    return true;
}

void et_terminal_close(void)
{
    restore_terminal();
}

/* The key of the text after ESC, if it has a name. */
static int find_key(const char *text, size_t size)
{
    static const struct {
        const char *text;
        int key;
    } keys[] = {{"[A", ET_KEY_UP},   {"OA", ET_KEY_UP},       {"[B", ET_KEY_DOWN},
                {"OB", ET_KEY_DOWN}, {"[5~", ET_KEY_PAGE_UP}, {"[6~", ET_KEY_PAGE_DOWN},
                {"[H", ET_KEY_HOME}, {"OH", ET_KEY_HOME},     {"[1~", ET_KEY_HOME}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (size == strlen(keys[i].text) && memcmp(text, keys[i].text, size) == 0) {
            return keys[i].key;
        }
    }
    return ET_KEY_OTHER;
}

/* bytes read but not used yet */
static char key_bytes[64];
static size_t key_byte_count;

/* Several keys may arrive at once. An escape sequence arrives in one read. */
static int read_key(void)
{
    if (key_byte_count == 0) {
        ssize_t got = read(STDIN_FILENO, key_bytes, sizeof key_bytes);
        if (got <= 0) {
            return got < 0 && errno == EINTR ? ET_KEY_DRAW : ET_KEY_GONE;
        }
        key_byte_count = (size_t)got;
    }
    size_t used = 1;
    int key = (unsigned char)key_bytes[0];
    if (key_bytes[0] == '\033') {
        used = 2 + (key_byte_count > 1 ? strcspn(key_bytes + 1, "ABCDEFGHZ~") : 0);
        used = used > key_byte_count ? key_byte_count : used;
        key = find_key(key_bytes + 1, used - 1);
    }
    key_byte_count -= used;
    memmove(key_bytes, key_bytes + used, key_byte_count);
    return key;
}

int et_terminal_key(long ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    sigset_t drawing, waiting;
    sigemptyset(&drawing);
    sigaddset(&drawing, SIGTSTP);
    sigaddset(&drawing, SIGWINCH);
    sigprocmask(SIG_BLOCK, &drawing, &waiting); /* a signal after the look at `redraw` must end the wait */
    int ready = redraw ? 0 : key_byte_count ? 1 : ppoll(&input, 1, &time, &waiting);
    bool draw = redraw;
    redraw = 0;
    sigprocmask(SIG_SETMASK, &waiting, NULL);
    if (draw) {
        return ET_KEY_DRAW;
    }
    return ready > 0 ? read_key() : ET_KEY_NONE;
}

void et_terminal_size(size_t *rows, size_t *columns)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}
