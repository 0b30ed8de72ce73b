-- Loops that LuaJIT compiles, and coroutines.
local function sum_to(limit)
  local sum = 0
  for i = 1, limit do sum = (sum * 31 + i) % 1000003 end
  return sum
end
local total = 0
for _ = 1, 60 do total = total + sum_to(3000000) end
local routines = {}
for i = 1, 20 do
  routines[i] = coroutine.wrap(function() for _ = 1, 100 do coroutine.yield(sum_to(100000)) end return i end)
end
for _ = 1, 101 do for i = 1, 20 do total = total + routines[i]() end end
local words = {}
for i = 1, 200000 do words[#words + 1] = ("word %d"):format(i):upper() end
print(total, #table.concat(words))
