// The sample backend of both example APIs. It answers with the authorizer's context. A
// REST API's proxy integration maps no responses, so the backend adds the RateLimit
// fields there; on an HTTP API the response mappings do. With HTTP_API_DENY=context the
// authorizer lets calls over a limit pass, and the backend must refuse them. CORS_ORIGIN
// is the origin whose scripts may read all answers: an origin, * or none.
'use strict'

const origin = process.env.CORS_ORIGIN ?? '*'

exports.handler = async (event) => {
  const http = event.version === '2.0'
  const context = event.requestContext
  const authorizer = (http ? context.authorizer?.lambda : context.authorizer) ?? {}
  const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...cors() }
  if (!http && authorizer.rateLimit) headers.RateLimit = authorizer.rateLimit
  if (!http && authorizer.rateLimitPolicy) headers['RateLimit-Policy'] = authorizer.rateLimitPolicy
  if (String(authorizer.denied) === 'true') return refused(authorizer, context.requestId, headers)
  const body = { method: http ? context.http.method : event.httpMethod, path: http ? event.rawPath : event.path, authorizer }
  return { statusCode: 200, headers, body: JSON.stringify(body, null, 2) + '\n' }
}

function cors () {
  if (origin === 'none') return {}
  const one = origin === '*' ? {} : { 'Access-Control-Allow-Credentials': 'true', Vary: 'Origin' }
  return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': 'Retry-After,RateLimit,RateLimit-Policy', ...one }
}

function refused (authorizer, requestId, headers) {
  headers['Content-Type'] = 'application/problem+json'
  if (authorizer.retryAfter) headers['Retry-After'] = String(authorizer.retryAfter)
  const problem = {
    type: authorizer.problemType,
    title: 'Too Many Requests',
    status: 429,
    detail: authorizer.message,
    message: authorizer.message,
    'violated-policies': JSON.parse(authorizer.violatedPolicies ?? '[]'),
    'retry-after': authorizer.wait,
    reference: authorizer.reference,
    instance: 'urn:uuid:' + requestId
  }
  return { statusCode: 429, headers, body: JSON.stringify(problem) + '\n' }
}
