/*
 * serve.c and address.c of core/features/endpoint, and start.c of control and pull, on simulated sockets: clients get
 * their answers, whatever calls fail and however little a socket takes; slow ones are disconnected; a stop and a fork
 * leave nothing open.
 */
#include <arpa/inet.h>

#include "account.h"
#include "core/features/endpoint/serve.h"
#include "unit.h"

#define MS    1000000ull
#define TOKEN "0123456789abcdef"
#define ASK   "GET /status HTTP/1.1\r\nAuthorization: Bearer " TOKEN "\r\n\r\n"

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)], pull_memory[EP_PULL_MEMORY_DEFAULT / sizeof(uint64_t)];
static char answer[1 << 16];

static void begin(void)
{
    struct ep_config c = {.memory = memory, .memory_size = sizeof memory, .interval_ms = 1000, .endpoint = "null:"};

    account_afresh();
    assert_int_equal(ep_start(&c), 0);
}

static void end(void)
{
    assert_int_equal(ep_stop(1000), 0);
}

static int connect_and_ask(enum ep_role role, const char *request)
{
    int client = ep_sim_connect(role);

    assert_true(client >= 0);
    ep_sim_client_send(client, request, strlen(request));
    return client;
}

/* Reads until the endpoint ends, `portion` bytes at a time. Returns the status; 0: disconnected without one. */
static int status_of(int client, size_t portion)
{
    size_t fill = 0;
    int status = 0;

    for (unsigned i = 0; i < 5000 && ep_sim_client_state(client) == EP_SIM_OPEN; i++) {
        ep_sim_run(10 * MS);
        fill += ep_sim_client_receive(client, answer + fill, portion);
    }
    assert_int_not_equal(ep_sim_client_state(client), EP_SIM_OPEN);
    fill += ep_sim_client_receive(client, answer + fill, sizeof answer - 1 - fill);
    answer[fill] = 0;
    (void)sscanf(answer, "HTTP/1.1 %d ", &status);
    ep_sim_client_close(client);
    ep_sim_run(10 * MS);
    assert_int_equal(ep_sim_client_state(client), EP_SIM_CLOSED);
    return status;
}

/* ---- addresses ---- */

static void check_address(const char *text)
{
    struct ep_address address;
    struct in6_addr six;
    struct in_addr four;
    char whole[80];

    (void)snprintf(whole, sizeof whole, "[%s]:80", text);
    const bool six_valid = ep_address_read(whole, &address) == 0;
    if (six_valid != (inet_pton(AF_INET6, text, &six) == 1))
        fail_msg("%s", whole);
    if (six_valid)
        assert_memory_equal(address.ip, &six, 16);
    (void)snprintf(whole, sizeof whole, "%s:80", text);
    const bool four_valid = ep_address_read(whole, &address) == 0;
    if (four_valid != (inet_pton(AF_INET, text, &four) == 1))
        fail_msg("%s", whole);
    if (four_valid)
        assert_memory_equal(address.ip, &four, 4);
}

/* What is an address, and which one, is the same as for the C library. */
TEST(test_addresses_as_in_libc)
{
    static const char *const parts[] = {":", "::", ".", "0", "1", "ffff", "12345", "a", "F0", "127", "256", "01", "g"};
    uint64_t dice = 1;
    struct ep_address address;

    for (unsigned i = 0; i < 200000; i++) {
        char text[64] = "";
        const bool likely = unit_random(&dice) & 1;
        for (unsigned k = unit_random(&dice) % 17; k > 0; k--) {
            const unsigned part = likely && k & 1 ? unit_random(&dice) % 2 : unit_random(&dice) % 13;
            if (strlen(text) + strlen(parts[part]) < 46)
                strcat(text, parts[likely && !(k & 1) ? 3 + part % 6 : part]);
        }
        if (*text && strcmp(text, "localhost") != 0)
            check_address(text);
    }
    static const char *const some[] = {"::",
                                       "::1",
                                       "1::",
                                       "1:2:3:4:5:6:7:8",
                                       "1:2:3:4:5:6:7::",
                                       "::ffff:1.2.3.4",
                                       "1:2:3:4:5:6:1.2.3.4",
                                       "1:2:3:4:5:6:7:1.2.3.4",
                                       "fe80::1:2",
                                       "1.2.3.4",
                                       "1.2.3.256"};
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++)
        check_address(some[i]);
    assert_int_equal(ep_address_read("localhost:65535", &address), 0);
    assert_true(ep_address_loopback(&address) && address.port == 65535 && address.ip[0] == 127);
    assert_int_equal(ep_address_read("[::1]:1", &address), 0);
    assert_true(ep_address_loopback(&address));
    assert_int_equal(ep_address_read("[::]:1", &address), 0);
    assert_false(ep_address_loopback(&address));
    assert_int_equal(ep_address_read("0.0.0.0:1", &address), 0);
    assert_false(ep_address_loopback(&address));
}

TEST(test_where_it_listens)
{
    begin();
    assert_int_equal(ep_control_start("/run/app.sock", NULL), 1);
    assert_string_equal(ep_sim.listen[EP_ROLE_CONTROL].path, "/run/app.sock");
    assert_int_equal(ep_control_start("/run/app.sock", NULL), -EALREADY);
    assert_int_equal(ep_control_stop(), 0);
    assert_int_equal(ep_control_stop(), -ESRCH);
    assert_int_equal(ep_control_start("80", NULL), -EINVAL);
    assert_int_equal(ep_control_start("80", TOKEN), 1);
    assert_null(ep_sim.listen[EP_ROLE_CONTROL].path);
    assert_true(ep_address_loopback(&ep_sim.listen[EP_ROLE_CONTROL]) && ep_sim.listen[EP_ROLE_CONTROL].port == 80);
    assert_int_equal(ep_control_stop(), 0);
    const struct ep_pull_config any = {
        .memory = pull_memory, .memory_size = sizeof pull_memory, .where = "[::]:81", .token = TOKEN, .insecure = 1};
    assert_int_equal(ep_pull_start(&any), 1);
    assert_int_equal(ep_sim.listen[EP_ROLE_PULL].ip_size, 16);
    assert_int_equal(ep_sim.listen[EP_ROLE_PULL].port, 81);
    assert_int_equal(ep_pull_stop(), 0);
    end();
}

/* ---- clients ---- */

/* A body is complete with every size of a socket's buffer that the head fits into. */
TEST(test_small_sockets)
{
    const struct ep_pull_config config = {.memory = pull_memory, .memory_size = sizeof pull_memory, .where = "80"};
    static const uint16_t stack[] = {1, 2, 3};
    static const char ask[] = "GET /debug/pprof/profile?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

    for (ep_sim.socket_room = 300; ep_sim.socket_room < 1000; ep_sim.socket_room += 111) {
        const size_t room = ep_sim.socket_room;
        unsigned length = 0;
        begin();
        ep_sim.socket_room = room;
        assert_int_equal(ep_pull_start(&config), 1);
        int client = connect_and_ask(EP_ROLE_PULL, ask);
        ep_sim_run(100 * MS);
        for (unsigned i = 0; i < 50; i++)
            assert_true(ep_sim_tick(1, 1, stack, 3));
        assert_int_equal(status_of(client, 100), 200);
        assert_int_equal(sscanf(strstr(answer, "Content-Length: "), "Content-Length: %u", &length), 1);
        const char *body = strstr(answer, "\r\n\r\n") + 4;
        assert_true(length > 100);
        assert_true(body + length <= answer + sizeof answer);
        assert_int_equal(ep_pull_stop(), 0);
        end();
        ep_sim.socket_room = room;
    }
}

/* All places are taken by clients that say nothing; they are disconnected after two seconds, and then others are
 * served. */
TEST(test_slow_clients)
{
    int slow[4];

    begin();
    assert_int_equal(ep_control_start("80", TOKEN), 1);
    for (unsigned i = 0; i < 4; i++)
        slow[i] = connect_and_ask(EP_ROLE_CONTROL, "GET /sta");
    ep_sim_run(1500 * MS);
    int client = connect_and_ask(EP_ROLE_CONTROL, ASK);
    ep_sim_run(400 * MS);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ep_sim_client_state(slow[i]), EP_SIM_OPEN);
    assert_int_equal(ep_sim_client_receive(client, answer, sizeof answer), 0);
    ep_sim_run(200 * MS);
    assert_int_equal(status_of(client, sizeof answer), 200);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ep_sim_client_state(slow[i]), EP_SIM_CLOSED);
    assert_int_equal(status_of(connect_and_ask(EP_ROLE_CONTROL, "GET /status HTTP/1.1\r\n\r\n"), 4096), 401);
    assert_int_equal(ep_control_stop(), 0);
    end();
}

/* Whichever call fails, the start says so or the client is served or disconnected, and the next client is served. */
TEST(test_each_call_fails)
{
    for (unsigned n = 1;; n++) {
        begin();
        ep_sim.fail_at = ep_sim.calls + n;
        const int started = ep_control_start("80", TOKEN);
        assert_true(started == 1 || started == -EIO);
        if (started == 1) {
            int first = ep_sim_connect(EP_ROLE_CONTROL);
            ep_sim_client_send(first, ASK, strlen(ASK));
            ep_sim_run(3000 * MS);
            assert_true(ep_sim_client_state(first) != EP_SIM_OPEN);
            ep_sim_client_close(first);
            const char *failed = ep_sim.failed;
            ep_sim.fail_at = 0;
            assert_int_equal(status_of(connect_and_ask(EP_ROLE_CONTROL, ASK), 4096), 200);
            assert_int_equal(ep_control_stop(), 0);
            if (!failed) {
                end();
                assert_true(n > 5);
                return;
            }
        }
        ep_sim.fail_at = 0;
        assert_int_equal(ep_sim_connect(EP_ROLE_CONTROL), -ECONNREFUSED);
        end();
    }
}

/* A child serves nobody and can start its own endpoint. */
TEST(test_fork)
{
    begin();
    assert_int_equal(ep_control_start("80", TOKEN), 1);
    int client = connect_and_ask(EP_ROLE_CONTROL, "GET /");
    ep_sim_run(10 * MS);
    ep_sim_fork();
    assert_int_equal(ep_sim_client_state(client), EP_SIM_CLOSED);
    assert_int_equal(ep_sim_connect(EP_ROLE_CONTROL), -ECONNREFUSED);
    assert_int_equal(ep_control_stop(), -ESRCH);
    assert_int_equal(ep_control_start("80", TOKEN), 1);
    assert_int_equal(status_of(connect_and_ask(EP_ROLE_CONTROL, ASK), 4096), 200);
    assert_int_equal(ep_control_stop(), 0);
}

TEST_MAIN
