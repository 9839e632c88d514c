// A SIP server of known capacity on Sofia-SIP, the stack of FreeSWITCH: registrar and user agent in one.
//
//     sofia sip:ADDRESS:PORT COST_US RING_MS
//
// One thread. Every REGISTER and every INVITE that begins a call costs it COST_US microseconds of sleep;
// copies, which the stack knows, cost next to nothing. A call rings for RING_MS and is answered; user
// "ringer" rings until it is cancelled. re-INVITE and INFO (application/dtmf-relay) are answered, digits are
// counted. SIGTERM: it writes what it has counted as JSON on standard output and ends.
//
// Here: what the stack leaves to its application. Not here: anything of SIP's own rules, which the stack is
// tested with.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct server;
struct call;
#define NUA_MAGIC_T	struct server
#define NUA_HMAGIC_T	struct call
#define SU_ROOT_MAGIC_T struct server
#define SU_TIMER_ARG_T	struct call

#include <sofia-sip/nua.h>
#include <sofia-sip/sip_header.h>
#include <sofia-sip/sip_status.h>

static const char SDP[] = "v=0\r\no=sofia 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
			  "m=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

struct server {
	su_root_t *root;
	useconds_t cost_us;
	su_duration_t ring_ms;
	unsigned registered, called, answered, reinvited, digits, cancelled, ended;
};

struct call {
	struct server *server;
	nua_handle_t *handle;
	su_timer_t *ringing;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void answer(nua_handle_t *handle)
{
	nua_respond(handle, SIP_200_OK, SIPTAG_CONTENT_TYPE_STR("application/sdp"), SIPTAG_PAYLOAD_STR(SDP),
		    TAG_END());
}

static void ring_is_over(struct server *server, su_timer_t *timer, struct call *call)
{
	(void)timer;
	server->answered++;
	answer(call->handle);
}

// Begins a call; the handle's magic is the call from now on.
static void ring(struct server *server, nua_handle_t *handle, const sip_t *sip)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		abort();
	usleep(server->cost_us);
	server->called++;
	call->server = server;
	call->handle = handle;
	nua_handle_bind(handle, call);
	nua_respond(handle, SIP_180_RINGING, TAG_END());
	if (sip->sip_to->a_url->url_user && !strcmp(sip->sip_to->a_url->url_user, "ringer"))
		return;
	call->ringing = su_timer_create(su_root_task(server->root), server->ring_ms);
	if (!call->ringing || su_timer_set(call->ringing, ring_is_over, call) < 0)
		abort();
}

static void forget(nua_handle_t *handle, struct call *call)
{
	su_timer_destroy(call->ringing);
	nua_handle_bind(handle, NULL);
	nua_handle_destroy(handle);
	free(call);
}

static int is_digit(const sip_t *sip)
{
	return sip->sip_content_type &&
	       !strcasecmp(sip->sip_content_type->c_type, "application/dtmf-relay") && sip->sip_payload &&
	       !strncmp(sip->sip_payload->pl_data, "Signal=5", 8);
}

static void on_event(nua_event_t event, int status, const char *phrase, nua_t *nua, struct server *server,
		     nua_handle_t *handle, struct call *call, const sip_t *sip, tagi_t tags[])
{
	int state = 0;

	(void)status;
	(void)phrase;
	switch (event) {
	case nua_i_register:
		usleep(server->cost_us);
		server->registered++;
		nua_respond(handle, SIP_200_OK, NUTAG_WITH_THIS(nua), SIPTAG_CONTACT(sip->sip_contact),
			    SIPTAG_EXPIRES_STR("3600"), TAG_END());
		nua_handle_destroy(handle);
		break;
	case nua_i_invite:
		if (call) {
			server->reinvited++;
			answer(handle);
		} else {
			ring(server, handle, sip);
		}
		break;
	case nua_i_info:
		if (is_digit(sip)) {
			server->digits++;
			nua_respond(handle, SIP_200_OK, NUTAG_WITH_THIS(nua), TAG_END());
		} else {
			nua_respond(handle, SIP_415_UNSUPPORTED_MEDIA, NUTAG_WITH_THIS(nua), TAG_END());
		}
		break;
	case nua_i_cancel:
		server->cancelled++;
		break;
	case nua_i_bye:
		server->ended++;
		break;
	case nua_i_state:
		tl_gets(tags, NUTAG_CALLSTATE_REF(state), TAG_END());
		if (call && state == nua_callstate_terminated)
			forget(handle, call);
		break;
	default:
		break;
	}
}

int main(int argc, char **argv)
{
	struct server server = {0};
	nua_t *nua;

	if (argc != 4) {
		fprintf(stderr, "usage: %s sip:ADDRESS:PORT COST_US RING_MS\n", argv[0]);
		return 2;
	}
	server.cost_us = strtoul(argv[2], NULL, 10);
	server.ring_ms = strtoul(argv[3], NULL, 10);
	signal(SIGTERM, stop);

	su_init();
	server.root = su_root_create(&server);
	// The stack in this thread: while the application sleeps, datagrams wait in the socket.
	su_root_threading(server.root, 0);
	nua = nua_create(server.root, on_event, &server, NUTAG_URL(argv[1]), NUTAG_MEDIA_ENABLE(0),
			 NUTAG_AUTOALERT(0), NUTAG_AUTOANSWER(0), NUTAG_ALLOW("REGISTER, INFO"),
			 NUTAG_APPL_METHOD("REGISTER, INFO"), TAG_END());
	if (!nua) {
		fprintf(stderr, "%s: cannot listen on %s\n", argv[0], argv[1]);
		return 1;
	}
	while (!stopped)
		su_root_step(server.root, 100);
	printf("{\"registered\": %u, \"called\": %u, \"answered\": %u, \"reinvited\": %u, \"digits\": %u, "
	       "\"cancelled\": %u, \"ended\": %u}\n",
	       server.registered, server.called, server.answered, server.reinvited, server.digits,
	       server.cancelled, server.ended);
	return 0;
}
