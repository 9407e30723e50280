// A sample backend behind both example APIs: it answers with what the authorizer told it. A REST API's proxy integration maps no response, so there
// the backend itself adds the RateLimit fields; on an HTTP API the integration's response mappings do.
'use strict'

exports.handler = async (event) => {
  const http = event.version === '2.0'
  const context = event.requestContext
  const authorizer = (http ? context.authorizer?.lambda : context.authorizer) ?? {}
  const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }
  if (!http && authorizer.rateLimit) headers.RateLimit = authorizer.rateLimit
  if (!http && authorizer.rateLimitPolicy) headers['RateLimit-Policy'] = authorizer.rateLimitPolicy
  const body = { method: http ? context.http.method : event.httpMethod, path: http ? event.rawPath : event.path, authorizer }
  return { statusCode: 200, headers, body: JSON.stringify(body, null, 2) + '\n' }
}
