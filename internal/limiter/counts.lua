-- The same step as step.lua for {{.Count}} counters: state and program in step, no window begins. It leaves `reply` nil, and everything as it was, for
-- any other. Written out for each number of counters, since tables and loops would cost as much as the step.
if #prog == {{.Program}} and #s == {{.State}} and cost > 0 and string.sub(s, 1, {{.Signature}}) == string.sub(prog, 3, {{.Limits}}) then
  local code, {{list "kind#, window#"}}, {{list "n#, _"}} = unpack('>I4{{repeat "I5I7"}}{{repeat "I7I7"}}', prog)
  local {{list "start#, prev#, cur#"}} = unpack('>{{repeat "I7I4I4"}}', s, {{.Sections}})
  local {{list "elapsed#"}} = {{list "now - start#"}}
  local {{list "weighted#"}} = {{list "prev# * (window# - elapsed#)"}}
  if code == {{.Code}} and {{all "kind# == 12884901888 and elapsed# >= 0 and elapsed# < window# and start# % window# == 0 and weighted# < 9007199254740992"}} then
    local {{list "left#"}} -- what is left, the previous window's share rounded up
{{- range .Each}}
    n{{.}} = (n{{.}} - n{{.}} % 16777216) / 16777216
    left{{.}} = n{{.}} - cur{{.}}
    if weighted{{.}} > 0 then
      local whole = weighted{{.}} / window{{.}}
      whole = whole - whole % 1
      if whole * window{{.}} < weighted{{.}} then whole = whole + 1 end
      left{{.}} = left{{.}} - whole
    end
{{- end}}
    if {{all "cost <= left#"}} then
      call('SETRANGE', key, {{.First}}, pack('>I4{{.Rest}}', {{.Written}}))
      reply = pack('>I1I7{{repeat "I4"}}', 3, now, {{list "left# - cost"}})
    elseif {{all "cost <= n#"}} then
      local exact, {{list "retry#"}} = true, {{list "0"}}
{{- range .Each}}
      if cost > left{{.}} then
        local free, shrinking, ends = (n{{.}} - cur{{.}} - cost) * window{{.}}, prev{{.}}, window{{.}}
        if free < 0 then free, shrinking, ends = (n{{.}} - cost) * window{{.}}, cur{{.}}, 2 * window{{.}} end
        if free >= 9007199254740992 then exact = false end
        local overlap = free / shrinking
        overlap = overlap - overlap % 1
        if overlap * shrinking > free then overlap = overlap - 1 end
        retry{{.}} = ends - overlap - elapsed{{.}}
        if left{{.}} < 0 then left{{.}} = 0 end
      end
      if cur{{.}} > 0 then window{{.}} = 2 * window{{.}} elseif prev{{.}} == 0 then window{{.}} = elapsed{{.}} end
{{- end}}
      if exact then reply = pack('>I1I7{{repeat "I4I7I7"}}', 0, now, {{list "left#, window# - elapsed#, retry#"}}) end
    end
  end
end
