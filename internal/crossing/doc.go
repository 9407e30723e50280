// Package crossing reports that calls took the use of a limit to one of its thresholds:
// as one line of a log, from which a forwarder makes an event, and in a list for the
// dashboard. Both functions import it; enforce says what a call crossed.
//
// # Once
//
// A threshold of a limit on one caller is reported once until the limit resets: until the
// end of a fixed window or a period of the calendar, and in a rolling window until what
// was used then has left it. So a caller whose use of a rolling window hovers around a
// threshold makes one event for each window. An edit of the limit begins anew. A mark in
// Valkey keeps that, and each environment's memory of the marks that it knows spares the
// round trip.
//
// The report leaves after the call's answer and before the next call. An environment that
// is killed in between loses those of that one call; so does a call whose reply is lost,
// unless it is checked again. Without Valkey the line is written all the same, so an
// outage can report twice and never too little.
//
// # What is stored
//
//	tg:{tag}:usage-xMARK      string  that a threshold was reported      until its reset
//	tg:{tag}:usage-crossings  zset    128 of a bucket, as JSON           31 days
//	tg:{tag}:usage-yDAY       hash    crossings by unregistered callers  2 days
//
// All lie in the bucket of the subject that the limit is on. A list is at most about 10
// MB in all. Callers that anybody can make up, such as addresses, have at most 64 reports
// a bucket and day, 16,384 in all; further ones are neither listed nor written.
package crossing
