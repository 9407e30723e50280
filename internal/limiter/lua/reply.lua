-- Last part of every step: sets reply, which ParseReply decodes.
if not reply then
  reply = pack('>I1I7', allowed and ALLOWED or DENIED, now)
  for i = 1, 6 * limits, 6 do
    local left = results[i]
    if left < 0 then left = 2147483648 - left end
    reply = reply .. pack('>I4I7I7I4I4I4', left, results[i + 1], results[i + 2], results[i + 3],
      results[i + 4], results[i + 5])
  end
  if cost < 0 then reply = reply .. pack('>I4', unreturned) end
end
