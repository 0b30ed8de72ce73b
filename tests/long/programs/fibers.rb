# Twenty fibers that compute in turn, then an enumerator and threads beside them.
def sum_to(limit)
  sum = 0
  limit.times { |i| sum = (sum * 31 + i) % 1_000_003 }
  sum
end

fibers = 20.times.map { |i| Fiber.new { 150.times { Fiber.yield sum_to(20_000) }; i } }
total = 0
until fibers.empty?
  fibers.each { |fiber| total += fiber.resume }
  fibers.select!(&:alive?)
end
numbers = Enumerator.new { |out| 1.step { |i| out << sum_to(i % 100) } }
2000.times { total += numbers.next }
total += 4.times.map { Thread.new { sum_to(200_000) } }.sum(&:value)
puts total
