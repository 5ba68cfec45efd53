//! Names of functions as the user wrote them.

/// The most characters of a name that is written in full.
const LONG: usize = 48;

/// The name of the code of a parallel region whose function is not known.
pub const REGION: &str = "parallel region";

/// A function's name in a report: without what the compiler appended; in a long name, template and
/// type arguments are left out.
pub fn shortened(name: &str) -> String {
    let name = written_by_user(name);
    if name.chars().count() > LONG {
        without_arguments(name).unwrap_or_else(|| name.to_owned())
    } else {
        name.to_owned()
    }
}

/// The function that the user wrote: compilers append to the names of those that they make of its
/// parts (`main._omp_fn.0`, `main.omp_outlined`). Before version 17, clang's names for these parts
/// (`.omp_outlined.`) do not say of which function they are.
pub fn written_by_user(name: &str) -> &str {
    let made = ["._omp_fn.", ".omp_outlined"];
    let cut = made.iter().filter_map(|mark| name.find(mark)).min();
    match cut {
        Some(0) => REGION,
        Some(at) => &name[..at],
        None => name,
    }
}

/// `Grid<...>::sweep` of `Grid<double, 3>::sweep`; `None` if the brackets do not match. What stands
/// between brackets that follow no name is kept: `<Grid as Solver>::sweep`.
fn without_arguments(name: &str) -> Option<String> {
    let mut out = String::new();
    // Brackets that are open: of arguments that are left out, and others.
    let (mut hidden, mut kept) = (0_usize, 0_usize);
    for (at, letter) in name.char_indices() {
        let before = &name[..at];
        let is_operator = [
            "operator",
            "operator<",
            "operator>",
            "operator<=",
            "operator-",
        ]
        .iter()
        .any(|begin| before.ends_with(begin));
        let is_arrow = letter == '>' && before.ends_with('-');
        let is_bracket = !is_operator && !is_arrow;
        match letter {
            '<' if is_bracket && hidden > 0 => hidden += 1,
            '<' if is_bracket
                && before.ends_with(|last: char| last.is_alphanumeric() || last == '_') =>
            {
                hidden = 1;
                out.push_str("<...");
            }
            '<' if is_bracket => {
                kept += 1;
                out.push('<');
            }
            '>' if is_bracket && hidden > 1 => hidden -= 1,
            '>' if is_bracket && hidden == 1 => {
                hidden = 0;
                out.push('>');
            }
            '>' if is_bracket => {
                kept = kept.checked_sub(1)?;
                out.push('>');
            }
            letter if hidden == 0 => out.push(letter),
            _ => {}
        }
    }
    (hidden == 0 && kept == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_names_that_the_user_wrote() {
        for (name, expected) in [
            ("main._omp_fn.0", "main"),
            ("solve.omp_outlined", "solve"),
            (".omp_outlined.", "parallel region"),
            (".omp_outlined._debug__", "parallel region"),
            ("add", "add"),
            ("Grid<double, 3>::sweep", "Grid<double, 3>::sweep"),
        ] {
            assert_eq!(shortened(name), expected);
        }
    }

    #[test]
    fn long_names_leave_out_arguments_of_templates() {
        for (name, expected) in [
            (
                "Generator<int, std::engine<unsigned long, (unsigned long)32> >::MakeRMatEL",
                "Generator<...>::MakeRMatEL",
            ),
            (
                "<grid::Periodic<alloc::vec::Vec<f64>> as solve::Solver<f64>>::sweep_all_of_it",
                "<grid::Periodic<...> as solve::Solver<...>>::sweep_all_of_it",
            ),
            (
                "std::ostream& operator<< <std::char_traits<char>, std::allocator<char> >",
                "std::ostream& operator<< <std::char_traits<...>, std::allocator<...> >",
            ),
            (
                "std::unique_ptr<very::long::name::of::a::Type, Deleter>::operator->",
                "std::unique_ptr<...>::operator->",
            ),
            (
                "run<unsigned long, (anonymous namespace)::Queue, 3, 4, 5, 6>::{lambda(int)#1}",
                "run<...>::{lambda(int)#1}",
            ),
        ] {
            assert_eq!(shortened(name), expected);
        }
        let unbalanced = "select<(unsigned long)1 < 0, a_long_type, another_long_type, a_third";
        assert_eq!(shortened(unbalanced), unbalanced);
    }
}
