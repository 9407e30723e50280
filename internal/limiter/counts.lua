-- The same step as step.lua for {{count}} counters: state and program in step, a clock
-- that did not step back. It leaves `reply` nil, and everything as it was, for any other.
-- Written out for each number of counters, since tables and loops would cost as much as
-- the step.
if #prog == {{program length}} and #s == {{state length}} and cost > 0
  and string.sub(s, 1, {{signature length}}) == string.sub(prog, 3, {{signature end}}) then
  local code, {{list kind#, window#}}, {{list n#, _}} = unpack('>I4{{repeat I5I7}}{{repeat I7I7}}', prog)
  local {{list start#, prev#, cur#}} = unpack('>{{repeat I7I4I4}}', s, {{sections}})
  local {{list elapsed#}} = {{list now - start#}}
  if code == {{header}} and {{all kind# == 12884901888 and elapsed# >= 0 and start# % window# == 0}} then
    local exact, rolled = true, false
    local {{list left#}} -- what is left, the previous window's share rounded up
{{each     if elapsed# >= window# then
      if elapsed# < 2 * window# then prev# = cur# else prev# = 0 end
      cur#, elapsed#, rolled = 0, now % window#, true
      start# = now - elapsed#
    end
    n# = (n# - n# % 16777216) / 16777216
    left# = n# - cur#
    if prev# > 0 then
      local weighted = prev# * (window# - elapsed#)
      local whole = weighted / window#
      whole = whole - whole % 1
      if whole * window# < weighted then whole = whole + 1 end
      if weighted >= 9007199254740992 then exact = false end
      left# = left# - whole
    end
}}
    if not exact then
      reply = nil
    elseif {{all cost <= left#}} and rolled then
      call('SET', key, string.sub(s, 1, {{signature length}}) .. pack('>{{repeat I7I4I4}}', {{list start#, prev#, cur# + cost}}), 'PX',
        math.ceil(math.max({{list 2 * window# - elapsed#}}) / 1000) + 1)
      reply = pack('>I1I7{{repeat I4I4I4}}', 3, now, {{list left# - cost, prev#, cur# + cost}})
    elseif {{all cost <= left#}} then
      call('SETRANGE', key, {{sections}} - 1, pack('>{{repeat I7I4I4}}', {{list start#, prev#, cur# + cost}}))
      reply = pack('>I1I7{{repeat I4I4I4}}', 3, now, {{list left# - cost, prev#, cur# + cost}})
    elseif {{all cost <= n#}} then
      local {{list retry#}} = {{list 0}}
{{each       if cost > left# then
        local free, shrinking, ends = (n# - cur# - cost) * window#, prev#, window#
        if free < 0 then free, shrinking, ends = (n# - cost) * window#, cur#, 2 * window# end
        if free >= 9007199254740992 then exact = false end
        local overlap = free / shrinking
        overlap = overlap - overlap % 1
        if overlap * shrinking > free then overlap = overlap - 1 end
        retry# = ends - overlap - elapsed#
        if left# < 0 then left# = 0 end
      end
      if cur# > 0 then window# = 2 * window# elseif prev# == 0 then window# = elapsed# end
}}
      if exact then reply = pack('>I1I7{{repeat I4I7I7I4I4}}', 0, now, {{list left#, window# - elapsed#, retry#, prev#, cur#}}) end
    end
  end
end
